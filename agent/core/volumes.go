package core

import (
	"math"
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// volumes is the room of the volumes. These outlive tasks, executors and agent processes: the data of a volume stays
// until the leader names the volume to be destroyed (R22).
type volumes struct {
	*base
	leader *leader
	// destroying holds the generations of the volumes that this process is deleting. A leader asks again in each of its
	// sessions, and two deletions of one folder would break each other.
	destroying map[api.VolumeID]uint64
	// held is how much was in each volume, in bytes, when it was measured last and nobody used it, or its user had made
	// it less. An entry goes when a user has ended: then the volume is measured anew.
	held map[api.VolumeID]int64
}

// createVolume stores the volume before its folder is made. An earlier generation that is still here is one that the
// registry has lost: making the folder puts its data aside.
func (v *volumes) createVolume(volume protocol.Volume) {
	id := volume.Volume
	known, is := v.state.volumes[id]
	switch {
	case is && known.Generation == volume.Generation:
		return
	case is && v.inUse(id):
		v.log("volume not made", field("volume", id), field("why", "an earlier volume of this ID is in use; the leader asks again"))
		return
	}
	v.follow(v.writeRecord(VolumeKept{volume}), makeVolume{id})
}

// makeFolder makes a volume's folder, unless the volume is being destroyed or was destroyed meanwhile: nobody would ever
// delete that folder.
func (v *volumes) makeFolder(id api.VolumeID) {
	_, is := v.state.volumes[id]
	if _, deleting := v.destroying[id]; is && !deleting {
		v.emit(CreateVolume{id, true})
	}
}

// most returns how many bytes may be in a volume: its size. Where there is more already, whoever uses it next may clean
// it up, but adds nothing. What can't be measured is too much for anybody (R45).
func (v *volumes) most(id api.VolumeID) int64 {
	size := int64(v.state.volumes[id].Scalar) << 20 / 1000
	if held := v.held[id]; held < math.MaxInt64 {
		return max(size, held)
	}
	return size
}

// measurable returns a volume as something to measure. One that nobody uses is measured once after its last use.
func (v *volumes) measurable(id api.VolumeID) (sandbox Sandbox, is bool) {
	_, known := v.held[id]
	_, deleting := v.destroying[id]
	if !v.inUse(id) {
		return Sandbox{Volume: id, Ended: true}, !known
	}
	return Sandbox{Volume: id, DiskMax: v.most(id)}, !deleting
}

// keepMeasure takes the measured size of a volume, and says whether whoever uses it has written too much.
func (v *volumes) keepMeasure(id api.VolumeID, bytes int64) (outgrown bool) {
	if _, is := v.state.volumes[id]; !is {
		return false // it was destroyed meanwhile
	}
	used := v.inUse(id)
	if used && bytes > v.most(id) {
		return true
	}
	if before, known := v.held[id]; !used || known && bytes < before {
		v.held[id] = bytes
	}
	return false
}

// release forgets what was in volumes of which a user has ended.
func (v *volumes) release(ids []api.VolumeID) {
	for _, id := range ids {
		delete(v.held, id)
	}
}

// inUse says whether a volume is being deleted, or something that has not ended holds it.
func (v *volumes) inUse(id api.VolumeID) bool {
	if _, deleting := v.destroying[id]; deleting {
		return true
	}
	for _, e := range v.state.executors { // order: irrelevant because any will do
		if e.holds(id) {
			return true
		}
	}
	return false
}

// destroyVolume deletes only the volume that the leader names (R22). One that is not there was destroyed before. A
// volume that is being deleted has its answer when that is done.
func (v *volumes) destroyVolume(id api.VolumeID, generation uint64) {
	if known, is := v.state.volumes[id]; !is || known.Generation != generation {
		v.leader.tell(protocol.VolumeDone{Volume: id, Generation: generation})
		return
	}
	if _, deleting := v.destroying[id]; deleting {
		return
	}
	v.destroying[id] = generation
	v.emit(DestroyVolume{id, generation})
}

// volumeDestroyed tells the leader that the volume is gone, once that is on disk.
func (v *volumes) volumeDestroyed(w VolumeDestroyed) {
	if generation, deleting := v.destroying[w.Volume]; !deleting || generation != w.Generation {
		return // it is no answer to what this process has begun
	}
	delete(v.destroying, w.Volume)
	if w.Err != "" {
		v.leader.tell(protocol.VolumeDone{Volume: w.Volume, Generation: w.Generation, Err: w.Err})
		return
	}
	v.follow(v.writeRecord(VolumeForgotten{w.Volume}), confirmDestroyed{w.Volume, w.Generation})
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
