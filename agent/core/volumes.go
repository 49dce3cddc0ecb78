package core

import (
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// volumes is the room of what outlives tasks, executors and agents' processes: a volume's data stays until the leader
// names the volume to be destroyed (R22).
type volumes struct {
	*base
	leader *leader
}

// createVolume stores the volume before its folder is made.
func (v *volumes) createVolume(volume api.Resource) {
	if _, known := v.state.volumes[volume.Volume]; known {
		return
	}
	v.follow(v.writeRecord(VolumeKept{volume}), makeVolume{volume.Volume})
}

// destroyVolume deletes only what the leader names (R22). One that is not there has
// been destroyed before.
func (v *volumes) destroyVolume(id api.VolumeID) {
	if _, known := v.state.volumes[id]; !known {
		v.leader.tell(protocol.VolumeDone{Volume: id})
		return
	}
	v.emit(DestroyVolume{id})
}

// volumeDestroyed tells the leader, once it is on disk that the volume is no more.
func (v *volumes) volumeDestroyed(w VolumeDestroyed) {
	if w.Err != "" {
		v.leader.tell(protocol.VolumeDone{Volume: w.Volume, Err: w.Err})
		return
	}
	v.follow(v.writeRecord(VolumeForgotten{w.Volume}), confirmDestroyed{w.Volume})
}

// volumes are those that an executor, or a task of its that has not ended, holds.
func (e *executor) volumes() []api.VolumeID {
	held := e.starting.Executor.Resources
	for _, t := range e.tasks { // order: irrelevant because it is a sum
		if !t.ended() {
			held = held.Plus(t.launch.Resources)
		}
	}
	return volumesIn(held)
}

// volumesIn are the volumes among what a task or an executor holds, in order.
func volumesIn(resources api.Resources) []api.VolumeID {
	var ids []api.VolumeID
	for _, item := range resources.Items() {
		if item.Volume != "" && !slices.Contains(ids, item.Volume) {
			ids = append(ids, item.Volume)
		}
	}
	return ids
}
