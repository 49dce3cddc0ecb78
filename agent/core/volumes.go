package core

import (
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// volumes is the room of the volumes. These outlive tasks, executors and agent processes: the data of a volume stays
// until the leader names the volume to be destroyed (R22).
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

// destroyVolume deletes only the volume that the leader names (R22). A volume that is not there was destroyed before.
func (v *volumes) destroyVolume(id api.VolumeID) {
	if _, known := v.state.volumes[id]; !known {
		v.leader.tell(protocol.VolumeDone{Volume: id})
		return
	}
	v.emit(DestroyVolume{id})
}

// volumeDestroyed tells the leader that the volume is gone, once that is on disk.
func (v *volumes) volumeDestroyed(w VolumeDestroyed) {
	if w.Err != "" {
		v.leader.tell(protocol.VolumeDone{Volume: w.Volume, Err: w.Err})
		return
	}
	v.follow(v.writeRecord(VolumeForgotten{w.Volume}), confirmDestroyed{w.Volume})
}

// volumesIn lists the volumes among the resources, in their order there.
func volumesIn(resources api.Resources) []api.VolumeID {
	var ids []api.VolumeID
	for _, item := range resources.Items() {
		if item.Volume != "" && !slices.Contains(ids, item.Volume) {
			ids = append(ids, item.Volume)
		}
	}
	return ids
}
