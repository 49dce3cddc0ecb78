package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/tenderhq/tender/internal/datafolder"
)

// ErrNoRoom says that the disk has no room for what was to be written, and that nothing of it was written. The same
// call may be repeated when there is room.
var ErrNoRoom = errors.New("no room is left on the disk of the agent's data folder")

// The log needs room that nobody else can take. Tasks write to the same disk, so free blocks may be gone at any time. A
// file that occupies some blocks and is deleted when they are needed gives them to whoever writes first. So the log has
// blocks allocated behind its end, and writes into those. Where a file system can't do that, the file reserve is better
// than nothing.

// ahead is how much room there should be behind the end of the log: as much again as the present state takes, because
// there can't be more to write about it than that.
func (d *Disk) ahead() int64 {
	return max(d.config.ReserveBytes, d.base, min(d.size, d.config.BloatBytes))
}

// refill allocates room ahead, and checks what the disk has left. If either is missing the store is full: what runs is
// still recorded, in the room that is kept for it.
func (d *Disk) refill() {
	least := d.config.ReserveBytes
	if d.full.Load() {
		least *= 2 // twice as much, or it would be full again with the next page
	}
	room, err := d.system.room(d.config.Folder)
	scarce := err == nil && (room.Free < uint64(least) || lacksInodes(room, d.full.Load()))
	d.full.Store(scarce || d.makeRoom() != nil)
}

func (d *Disk) makeRoom() error {
	want := d.ahead()
	switch {
	case d.reserved && d.deleted:
		return d.makeReserve()
	case d.reserved || d.log != nil && d.room-d.size >= want-want/4:
		return nil
	case d.log == nil:
		return d.newLog()
	}
	return d.extend(d.size + want)
}

// extend allocates blocks of the log up to an offset.
func (d *Disk) extend(upTo int64) error {
	err := d.system.allocate(d.log, upTo)
	switch {
	case err == nil:
		d.room = max(d.room, upTo)
		return nil
	case errors.Is(err, errors.ErrUnsupported):
		d.reserved = true
		return d.makeReserve()
	case datafolder.IsDiskFull(err):
		return ErrNoRoom
	}
	return fmt.Errorf("%s could not be given room: %w", logFile, err)
}

// roomFor makes sure, before anything is written, that so many bytes fit in the log.
func (d *Disk) roomFor(bytes int64) error {
	if d.reserved || d.room >= d.size+bytes {
		return nil
	}
	err := d.extend(d.size + bytes)
	if errors.Is(err, ErrNoRoom) {
		d.full.Store(true)
	}
	return err
}

// giveUpReserve makes room by deleting the file reserve. It returns false if there is none.
func (d *Disk) giveUpReserve() bool {
	if !d.reserved || os.Remove(d.path(reserveFile)) != nil {
		return false
	}
	d.full.Store(true)
	d.deleted = true
	return true
}

// makeReserve makes the reserve file if it is missing.
func (d *Disk) makeReserve() error {
	path := d.path(reserveFile)
	if info, err := os.Stat(path); err == nil && info.Size() == d.config.ReserveBytes {
		return nil
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	// The blocks are written, because a sparse file reserves nothing.
	_, err = d.system.write(file, make([]byte, d.config.ReserveBytes), 0)
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	d.deleted = false
	return nil
}

// InodesMin is how many more files the disk must be able to hold for a launch. A task takes some for its sandbox, and
// an executor some more.
const InodesMin = 256

// lacksInodes reports whether the disk can hold too few files for launches. What was full needs twice as many.
func lacksInodes(room datafolder.Room, full bool) bool {
	if full {
		return room.LacksInodes(2 * InodesMin)
	}
	return room.LacksInodes(InodesMin)
}

// LacksInodes reports whether the disk of a full store lacks inodes, whatever else it lacks.
func LacksInodes(room datafolder.Room) bool { return lacksInodes(room, true) }

// clearLeftovers removes files that older versions, or a crash, have left and that nobody reads.
func (d *Disk) clearLeftovers() error {
	names := []string{identityFile + ".new", logFile + ".new"}
	if !d.reserved {
		names = append(names, reserveFile)
	}
	for _, name := range names {
		if err := os.Remove(d.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// system is what a Disk needs from the operating system. Tests of full disks and of lost power replace it.
type system struct {
	write    func(file *os.File, data []byte, at int64) (int, error)
	truncate func(file *os.File, size int64) error
	sync     func(file *os.File) error // a file, or a folder with the names in it
	allocate func(file *os.File, upTo int64) error
	exchange func(one, other string) error
	room     func(folder string) (datafolder.Room, error)
}

func realSystem() system {
	return system{write: (*os.File).WriteAt, truncate: (*os.File).Truncate, sync: (*os.File).Sync, allocate: allocate, exchange: exchange, room: datafolder.RoomOf}
}
