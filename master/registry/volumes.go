package registry

import (
	"cmp"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
)

// Volume is a persistent volume of an agent. Its generation tells it from earlier and later ones of the same ID, so
// that no order and no answer about one ever concerns another. (Protocol rule R22.)
type Volume struct {
	Resource   api.Resource
	Generation uint64
	// Destroying says that the volume was destroyed, and that its agent has not said yet that the data is gone. Until
	// then no other volume of this ID is made there.
	Destroying bool
}

func (v Volume) is(id api.VolumeID, generation uint64) bool {
	return v.Resource.Volume == id && v.Generation == generation
}

// Generations returns the generation of each volume that is not being destroyed; nil if there is none.
func (a Agent) Generations() (generations map[api.VolumeID]uint64) {
	for _, v := range a.Volumes {
		if !v.Destroying && generations == nil {
			generations = make(map[api.VolumeID]uint64, len(a.Volumes))
		}
		if !v.Destroying {
			generations[v.Resource.Volume] = v.Generation
		}
	}
	return generations
}

// VolumesDestroyingMax bounds the volumes of one agent whose data is to be deleted. While there are as many, no further
// volume is destroyed there.
const VolumesDestroyingMax = 1000

// volumesAfter returns the agent's volumes once its reservations are those: a new one gets the next generation, and one
// that is no longer reserved is being destroyed.
func (s *State) volumesAfter(old Agent, reserved api.Resources) (after []Volume, next uint64, bad *Result) {
	const op = "agent.reserve"
	id, made, destroying := old.Agent.ID, make(map[api.VolumeID]Volume), make(map[api.VolumeID]bool)
	for _, v := range old.Volumes {
		if v.Destroying {
			after, destroying[v.Resource.Volume] = append(after, v), true
			continue
		}
		made[v.Resource.Volume] = v
	}
	next = max(s.NextVolume, 1)
	kept := make(map[api.VolumeID]bool)
	for _, item := range reserved.Items() {
		v, was := made[item.Volume]
		switch {
		case item.Volume == "" || kept[item.Volume]:
			continue
		case !was && destroying[item.Volume]:
			return nil, 0, refusal(op, api.Stale, id, "the data of an earlier volume %s is still being deleted", item.Volume)
		case !was:
			v.Generation = next
			next++
		}
		v.Resource, kept[item.Volume] = item, true
		after = append(after, v)
	}
	before := len(after)
	for _, v := range old.Volumes {
		if !v.Destroying && !kept[v.Resource.Volume] {
			v.Destroying = true
			after = append(after, v)
		}
	}
	if len(after) > before && len(after)-len(kept) > VolumesDestroyingMax {
		return nil, 0, tooManyDestroyed(op, id)
	}
	slices.SortFunc(after, compareVolumes)
	return after, next, nil
}

func tooManyDestroyed(op string, id api.AgentID) *Result {
	return refusal(op, api.Limit, id, "the data of %d destroyed volumes is still to be deleted there; wait until the agent has done so", VolumesDestroyingMax)
}

func compareVolumes(v, w Volume) int {
	return cmp.Or(cmp.Compare(v.Resource.Volume, w.Resource.Volume), cmp.Compare(v.Generation, w.Generation))
}

// DestroyOrphan has an agent delete a volume that it has reported and that is none of the agent's volumes in the
// registry.
type DestroyOrphan struct {
	ID         api.AgentID
	Volume     api.Resource
	Generation uint64
}

func (change DestroyOrphan) apply(s *State, _ time.Time) Result {
	const op = "volume.destroy"
	old, bad := s.agent(op, change.ID)
	if bad != nil {
		return *bad
	}
	if err := cmp.Or(api.CheckID("volume", string(change.Volume.Volume)), change.Volume.Check()); err != nil {
		return Result{Err: api.E(op, api.Invalid, "", err)}
	}
	if slices.ContainsFunc(old.Volumes, func(v Volume) bool { return v.is(change.Volume.Volume, change.Generation) }) {
		return Result{Agent: change.ID} // somebody was faster
	}
	if len(old.Volumes) >= VolumesDestroyingMax {
		return *tooManyDestroyed(op, change.ID)
	}
	old.Volumes = append(slices.Clone(old.Volumes), Volume{change.Volume, change.Generation, true})
	slices.SortFunc(old.Volumes, compareVolumes)
	return s.putAgent(op, old)
}

func (change DestroyOrphan) saw() sight {
	return sawOrphan{change.ID, change.Volume.Volume, change.Generation}
}

// VolumeGone says that the data of a destroyed volume is gone from its agent.
type VolumeGone struct {
	ID         api.AgentID
	Volume     api.VolumeID
	Generation uint64
}

func (change VolumeGone) apply(s *State, _ time.Time) Result {
	const op = "volume.gone"
	old, bad := s.agent(op, change.ID)
	if bad != nil {
		return *bad
	}
	i := slices.IndexFunc(old.Volumes, func(v Volume) bool { return v.Destroying && v.is(change.Volume, change.Generation) })
	if i < 0 {
		return refuse(op, api.NotFound, change.ID, "no such volume is being destroyed there")
	}
	old.Volumes = slices.Delete(slices.Clone(old.Volumes), i, i+1)
	s.setAgent(old)
	return Result{Agent: change.ID}
}

func (VolumeGone) saw() sight {
	return blind("it is about one generation of a volume, which is never given to another one (R22)")
}
