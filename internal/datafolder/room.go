package datafolder

import (
	"errors"
	"syscall"
)

// Room is how much there is on a disk.
type Room struct {
	Free, All uint64 // bytes; Free is without what the file system keeps for root
	// InodesFree is how many more files it can hold, and Inodes how many at all; 0 and 0 where there is no such limit.
	InodesFree, Inodes uint64
}

// LacksInodes reports whether it can hold fewer than so many more files.
func (r Room) LacksInodes(least uint64) bool { return r.Inodes > 0 && r.InodesFree < least }

// LittleBytes reports whether little space is left: less than a twentieth of the disk, and less than 2 GB. A twentieth
// of a large disk has room for much, and a small disk may never have had more than 2 GB free.
func (r Room) LittleBytes() bool { return r.Free < r.All/20 && r.Free < 2<<30 }

// LittleInodes reports whether few more files have room: less than a twentieth of them, and less than 20,000.
func (r Room) LittleInodes() bool { return r.InodesFree < r.Inodes/20 && r.InodesFree < 20_000 }

// RoomOf asks for the disk that holds the folder. The error is the system's.
func RoomOf(folder string) (Room, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		return Room{}, err
	}
	block := uint64(s.Bsize)
	return Room{Free: s.Bavail * block, All: s.Blocks * block, InodesFree: s.Ffree, Inodes: s.Files}, nil
}

// IsDiskFull reports whether an error of the system means that a disk, or a quota of it, is full.
func IsDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
