package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	agentcore "github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/api"
)

// folder is the folder of a volume on a machine.
type folder struct {
	made     time.Time
	deleting []*daemon // one for each deletion that is under way
	broken   bool      // two deletions have met, and both have failed
}

// createVolume makes a volume's folder. What is there and belongs to nobody that the agent knows is put aside.
func (m *machine) createVolume(e agentcore.CreateVolume) {
	if m.folders[e.Volume] != nil && !e.New {
		return
	}
	m.folders[e.Volume] = &folder{made: m.world.now}
}

// destroyVolume deletes a volume's folder, which takes a while if there is much in it. Two deletions at once break each
// other. A deletion ends with its process.
func (d *daemon) destroyVolume(e agentcore.DestroyVolume) {
	w, m, id := d.world, d.machine, e.Volume
	f := m.folders[id]
	began := w.now
	if f != nil {
		f.deleting = append(slices.DeleteFunc(f.deleting, func(by *daemon) bool { return by.dead }), d)
		f.broken = len(f.deleting) > 1
	}
	span := w.drawPause()
	if w.drawChance(2) {
		span = w.drawBetween(0, 12*time.Second)
	}
	w.planIn(span, func() {
		if d.dead {
			return
		}
		done := agentcore.VolumeDestroyed{Volume: id, Generation: e.Generation}
		if f != nil {
			f.deleting = slices.Delete(f.deleting, 0, 1)
			if f.broken {
				done.Err = "readdirent: no such file or directory"
				f.broken = len(f.deleting) > 0
			} else if m.folders[id] == f {
				delete(m.folders, id)
				w.truth.checkDeleted(d, id, began)
			}
		}
		d.stepCore(done)
	})
}

// sweepVolumes puts the folders aside that the agent does not know.
func (m *machine) sweepVolumes(has func(api.VolumeID) bool) {
	for _, id := range slices.Sorted(maps.Keys(m.folders)) {
		if !has(id) {
			delete(m.folders, id)
		}
	}
}

// volume is what the quorum has decided about a volume.
type volume struct {
	made      time.Time
	destroyed time.Time // zero: it exists
}

// noteReserved notes which volumes of an agent a committed change has made and destroyed.
func (t *truth) noteReserved(id api.AgentID, before, after api.Resources) {
	was, is := volumesIn(before), volumesIn(after)
	of := t.volumes[id]
	if of == nil {
		of = map[api.VolumeID]*volume{}
		t.volumes[id] = of
	}
	for _, v := range is {
		if !slices.Contains(was, v) {
			of[v] = &volume{made: t.world.now}
		}
	}
	for _, v := range was {
		if !slices.Contains(is, v) && of[v] != nil {
			of[v].destroyed = t.world.now
		}
	}
}

func volumesIn(resources api.Resources) (ids []api.VolumeID) {
	for _, item := range resources.Items() {
		if item.Volume != "" && !slices.Contains(ids, item.Volume) {
			ids = append(ids, item.Volume)
		}
	}
	return ids
}

// checkDeleted checks that only data are deleted of which the quorum has decided so (R22).
func (t *truth) checkDeleted(d *daemon, id api.VolumeID, began time.Time) {
	agent := d.core.Identity().Agent
	if v := t.volumes[agent][id]; v != nil && v.destroyed.IsZero() && !began.Before(v.made) && !t.world.quorum.restored {
		t.world.breakStory("%s deletes volume %s, which exists (R22)", d.machine.name, id)
	}
}

// volumesSettled returns which volume is not where it should be, or still is where it should not be (R22).
func (t *truth) volumesSettled(m *machine) string {
	id := m.agentOf()
	known := t.world.quorum.state.Agents[id]
	for _, v := range volumesIn(known.Reserved) {
		f := m.folders[v]
		switch decided := t.volumes[id][v]; {
		case f == nil:
			return fmt.Sprintf("volume %s of %s has no data on %s", v, id, m.name)
		case !m.daemon.core.HasVolume(v):
			return fmt.Sprintf("the agent on %s does not know volume %s, which exists", m.name, v)
		case decided != nil && f.made.Before(decided.made) && !t.world.quorum.restored:
			return fmt.Sprintf("volume %s on %s shows data from before it was made", v, m.name)
		}
	}
	for _, v := range slices.Sorted(maps.Keys(m.folders)) {
		if decided := t.volumes[id][v]; decided != nil && !decided.destroyed.IsZero() && !t.world.quorum.restored &&
			!slices.Contains(volumesIn(known.Reserved), v) {
			return fmt.Sprintf("volume %s was destroyed %v ago, and its data are still on %s", v, t.world.now.Sub(decided.destroyed), m.name)
		}
	}
	return ""
}
