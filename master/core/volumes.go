package core

import (
	"fmt"
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/core/reserving"
	"github.com/tenderhq/tender/master/view"
)

// volumes are compared with what agents report. Those that the registry does not know are kept until somebody destroys
// them by name (R22).
type volumes struct{ *base }

// checkVolumes compares what the agent reports with what the registry knows. What only
// the agent has is kept, for only a Destroy that names it may delete it (R22); what only
// the registry has was made while the agent could not hear of it.
func (r *volumes) checkVolumes(a *agent, got *report) {
	before := a.orphans
	a.orphans = nil
	reported := make(map[api.VolumeID]bool)
	known := r.volumesOf(a)
	for _, item := range got.volumes.Items() {
		reported[item.Volume] = true
		if _, is := known[item.Volume]; is || item.Volume == "" {
			continue
		}
		if old := before[item.Volume]; old != nil && old.Destroying {
			a.orphaned(item, old.Why).Destroying = true
			r.tellAgent(a, protocol.DestroyVolume{Volume: item.Volume})
			continue
		}
		a.orphaned(item, "the registry does not know it")
		r.info("volume is orphaned", field("agent", a.id), field("volume", item.Volume))
	}
	for _, id := range sortedKeys(known) {
		if !reported[id] {
			r.tellAgent(a, protocol.CreateVolume{Volume: known[id]})
		}
	}
}

// volumesOf are the agent's volumes as the registry has them.
func (r *volumes) volumesOf(a *agent) map[api.VolumeID]api.Resource {
	known := make(map[api.VolumeID]api.Resource)
	for _, item := range r.registry.Agents[a.id].Reserved.Items() {
		if item.Volume != "" {
			known[item.Volume] = item
		}
	}
	return known
}

func (a *agent) orphaned(volume api.Resource, why string) *reserving.Orphan {
	if a.orphans == nil {
		a.orphans = make(map[api.VolumeID]*reserving.Orphan)
	}
	o := &reserving.Orphan{OrphanedVolume: view.OrphanedVolume{Volume: volume, Why: why}}
	a.orphans[volume.Volume] = o
	return o
}

// destroyVolume has the agent delete what the registry does not have any more.
func (r *volumes) destroyVolume(a *agent, volume api.Resource) {
	a.orphaned(volume, "it is being destroyed").Destroying = true
	r.tellAgent(a, protocol.DestroyVolume{Volume: volume.Volume})
}

// volumeDone answers DestroyVolume. What could not be deleted stays an orphan, which may
// be destroyed again.
func (r *volumes) volumeDone(a *agent, done protocol.VolumeDone) {
	r.info("volume destroyed", field("agent", a.id), field("volume", done.Volume), Field{Name: "error", Value: done.Err})
	o := a.orphans[done.Volume]
	switch {
	case o == nil:
	case done.Err == "":
		delete(a.orphans, done.Volume)
	default:
		o.Destroying, o.Why = false, "the agent could not delete it: "+done.Err
	}
}

// orphanRequested answers an operator who asks about an orphan: it may be destroyed, and no other volume may be made in
// its place.
func (r *volumes) orphanRequested(a *agent, action ReserveOn) (answer string, err error) {
	o := a.orphans[action.Operation.Volume]
	switch {
	case o == nil:
		return "", nil
	case action.Operation.Kind == api.OpCreate:
		return "", o.InTheWay()
	case action.Operation.Kind != api.OpDestroy:
		return "", nil
	case o.Volume.Reserved != action.Role:
		return "", fmt.Errorf("the orphaned volume %s is of role %s; name that role", o.Volume.Volume, o.Volume.Reserved)
	}
	if user := a.userOf(o.Volume.Volume); user != "" {
		return "", fmt.Errorf("task %s uses the orphaned volume %s; end it first", user, o.Volume.Volume)
	}
	r.destroyVolume(a, o.Volume)
	return fmt.Sprintf("agent %s: the orphaned volume %s is being destroyed", a.id, o.Volume.Volume), nil
}

// userOf names a task that has the volume, or whose executor has it; "": none does.
func (a *agent) userOf(volume api.VolumeID) string {
	for _, t := range a.sortedTasks() {
		if t.held && hasVolume(t.resources, volume) {
			return t.ref.String()
		}
		x := a.executors[api.ExecutorRef{Framework: t.ref.Framework, Executor: t.task.ExecutorID()}]
		if t.held && x != nil && hasVolume(x.resources, volume) {
			return t.ref.String()
		}
	}
	return ""
}

func hasVolume(resources api.Resources, volume api.VolumeID) bool {
	return slices.ContainsFunc(resources.Items(), func(item api.Resource) bool { return item.Volume == volume })
}

// showOrphans lists them by ID.
func (a *agent) showOrphans() []view.OrphanedVolume {
	var shown []view.OrphanedVolume
	for _, id := range sortedKeys(a.orphans) {
		shown = append(shown, a.orphans[id].OrphanedVolume)
	}
	return shown
}
