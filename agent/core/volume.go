package core

import (
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// createVolume stores the volume before its folder is made.
func (c *Core) createVolume(volume api.Resource) {
	if _, known := c.state.volumes[volume.Volume]; known {
		return
	}
	c.after(c.put(VolumeKept{volume}), makeVolume{volume.Volume})
}

// destroyVolume deletes only what the leader names (R22). One that is not there has
// been destroyed before.
func (c *Core) destroyVolume(id api.VolumeID) {
	if _, known := c.state.volumes[id]; !known {
		c.tell(protocol.VolumeDone{Volume: id})
		return
	}
	c.emit(DestroyVolume{id})
}

func (c *Core) volumeDestroyed(w VolumeDestroyed) {
	if w.Err != "" {
		c.tell(protocol.VolumeDone{Volume: w.Volume, Err: w.Err})
		return
	}
	c.after(c.put(VolumeForgotten{w.Volume}), confirmDestroyed{w.Volume})
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
