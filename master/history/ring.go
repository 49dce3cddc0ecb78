package history

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tenderhq/tender/internal/datafolder"
	"github.com/tenderhq/tender/internal/wire"
)

// ring keeps records in segments, the oldest first. One goroutine writes; others may read meanwhile.
type ring struct {
	name   string
	config Config
	disk   disk

	mu       sync.RWMutex
	segments []*segment // the last one is open if file is not nil; guarded by mu

	// What follows belongs to the writer alone.
	file   *os.File  // of the open segment; nil: there is none
	grows  *contents // of the open segment, or of the last one that was open; its index is guarded by mu
	buffer []byte    // of what is written, used again
	next   int       // the number of the next file
	synced bool      // what was written is safe from a crash of the machine
	bytes  int64     // of all segments
	shares map[key]int64
}

const (
	// RoomLeftBytes is how much of the disk is left to others, above all to the quorum's log, which can't do without.
	RoomLeftBytes = 64 << 20
	// segmentsMin is of how many segments a full ring consists at least, so that dropping one loses little.
	segmentsMin     = 64
	segmentBytesMin = 64 << 10
	segmentBytesMax = 4 << 20
	// keptPart is how much of its bytes a full ring keeps, in eighths.
	keptPart = 7
)

// errNoRoom means that the disk is full, or nearly.
var errNoRoom = errors.New("the disk has no room left")

// disk is what a ring needs from the operating system. Tests of full disks and of lost power replace it.
type disk struct {
	write    func(file *os.File, data []byte, at int64) (int, error)
	sync     func(file *os.File) error // a file, or a folder with the names in it
	truncate func(file *os.File, size int64) error
	room     func(folder string) (datafolder.Room, error)
}

func realDisk() disk {
	return disk{write: (*os.File).WriteAt, sync: (*os.File).Sync, truncate: (*os.File).Truncate, room: datafolder.RoomOf}
}

func (r *ring) segmentBytes() int64 {
	return min(max(r.config.Bytes/segmentsMin, segmentBytesMin), segmentBytesMax)
}

func (r *ring) path(name string) string { return filepath.Join(r.config.Folder, name) }

// load reads what there is, and returns a sentence for everything that is not as it was written.
func (r *ring) load() (damage []string, err error) {
	entries, err := os.ReadDir(r.config.Folder)
	if err != nil {
		return nil, err
	}
	r.next, r.synced, r.shares = 1, true, map[key]int64{}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), r.name+"-") && strings.HasSuffix(entry.Name(), suffix+temporary) {
			if err := os.Remove(r.path(entry.Name())); err != nil {
				return nil, err
			}
			continue
		}
		numbers, is := parseName(r.name, entry.Name())
		if !is {
			continue
		}
		if numbers.from < r.next { // a larger segment has taken its place, and a crash has left it; names are in order
			if err := os.Remove(r.path(entry.Name())); err != nil {
				return nil, err
			}
			continue
		}
		s, harm, err := r.loadSegment(entry.Name())
		if err != nil {
			return nil, err
		}
		if damage = append(damage, harm...); s != nil {
			s.numbers = numbers
			r.include(s)
		}
		r.next = numbers.to + 1
	}
	return damage, nil
}

// include adds a segment to the ring's books.
func (r *ring) include(s *segment) {
	r.segments = append(r.segments, s)
	r.bytes += s.bytes
	for share, bytes := range s.summary.Shares { // order: irrelevant because sums are sums
		r.shares[share] += bytes
	}
}

// loadSegment reads what a segment says of itself. One that was not sealed, because its master was killed or its end is
// damaged, is read whole and sealed.
func (r *ring) loadSegment(name string) (_ *segment, harm []string, err error) {
	file, err := os.OpenFile(r.path(name), os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	if err := checkMagic(file); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	s := &segment{name: name, bytes: info.Size()}
	s.summary, s.indexAt, err = readSummary(file, info.Size())
	if err == nil {
		return s, nil, nil
	}
	if !errors.Is(err, errUnsealed) {
		return nil, nil, err
	}
	data := make([]byte, info.Size())
	if _, err := file.ReadAt(data, 0); err != nil {
		return nil, nil, err
	}
	found := recoverRecords(name, data)
	if found.Records == 0 {
		return nil, found.harm, os.Remove(r.path(name))
	}
	s.summary = found.summary
	return s, found.harm, r.sealFile(s, file, &found.contents, int64(found.end))
}

// sealFile writes the end of a segment behind its records. Without room for it the index stays in memory.
func (r *ring) sealFile(s *segment, file *os.File, c *contents, end int64) error {
	tail, indexAt, err := c.tail(end)
	if err != nil {
		return err
	}
	s.memory, s.bytes, s.indexAt = nil, end+int64(len(tail)), indexAt
	if err := r.writeAt(file, tail, end); err != nil {
		s.memory, s.bytes, s.indexAt = &c.index, end, 0
		return nil //nolint:nilerr // the next start reads it whole and tries again
	}
	if err := r.disk.truncate(file, s.bytes); err != nil {
		return err
	}
	return r.disk.sync(file)
}

// writeAt writes all of data at an offset, or leaves the file as long as that.
func (r *ring) writeAt(file *os.File, data []byte, at int64) error {
	if room, err := r.disk.room(r.config.Folder); err == nil && room.Free < RoomLeftBytes+uint64(len(data)) {
		return errNoRoom
	}
	_, err := r.disk.write(file, data, at)
	if datafolder.IsDiskFull(err) {
		err = errNoRoom
	}
	if err != nil {
		return errors.Join(err, r.disk.truncate(file, at))
	}
	return nil
}

// append writes records in order, as many as it can, and returns how many these are.
func (r *ring) append(records []record) (written int, err error) {
	for written < len(records) && err == nil {
		if err = r.ready(); err != nil {
			break
		}
		var n int
		n, err = r.fill(records[written:])
		written += n
	}
	return written, err
}

// ready makes sure that there is an open segment that is not full.
func (r *ring) ready() error {
	if r.file != nil && r.last().bytes >= r.segmentBytes() {
		if err := r.seal(); err != nil {
			return err
		}
	}
	if r.file != nil {
		return nil
	}
	numbers := span{r.next, r.next}
	s := &segment{name: nameOf(r.name, numbers), numbers: numbers, bytes: int64(len(magic)), memory: &index{}}
	file, err := os.OpenFile(r.path(s.name), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err == nil {
		if err = r.writeAt(file, []byte(magic), 0); err == nil {
			err = r.syncFolder()
		}
		if err != nil {
			err = errors.Join(err, file.Close(), os.Remove(r.path(s.name)))
		}
	}
	if datafolder.IsDiskFull(err) {
		return errNoRoom
	}
	if err != nil {
		return err
	}
	r.file, r.grows, r.next = file, newContents(r.grows), r.next+1
	r.mu.Lock()
	defer r.mu.Unlock()
	r.include(s)
	return nil
}

// lastCursor returns the cursor of the newest record; zero: there is none.
func (r *ring) lastCursor() wire.Cursor {
	for i := len(r.segments) - 1; i >= 0; i-- {
		if s := r.segments[i].summary; s.Records > 0 {
			return s.Last
		}
	}
	return wire.Cursor{}
}

func (r *ring) last() *segment { return r.segments[len(r.segments)-1] }

// fillRecordsMax bounds the records of one write.
const fillRecordsMax = 1024

// fill writes records into the open segment until it is full, by one write.
func (r *ring) fill(records []record) (written int, err error) {
	s := r.last()
	r.buffer, r.synced = r.buffer[:0], false
	n := 0
	for ; n < min(len(records), fillRecordsMax) && s.bytes+int64(len(r.buffer)) < r.segmentBytes(); n++ {
		start := len(r.buffer)
		r.buffer = endFrame(append(beginFrame(r.buffer, records[n].kind, records[n].share), records[n].event...), start)
	}
	if err := r.writeAt(r.file, r.buffer, s.bytes); err != nil {
		return 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range records[:n] {
		bytes := int64(frameBytes + len(records[i].event))
		r.grows.add(s.bytes, bytes, &records[i].card)
		r.shares[records[i].share] += bytes
		s.bytes += bytes
	}
	r.bytes += int64(len(r.buffer))
	s.summary, *s.memory = r.grows.summary, r.grows.index
	return n, nil
}

// seal ends the open segment.
func (r *ring) seal() error {
	if r.file == nil {
		return nil
	}
	sealed := *r.last() // readers hold the old value
	err := r.sealFile(&sealed, r.file, r.grows, sealed.bytes)
	err = errors.Join(err, r.file.Close())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes += sealed.bytes - r.last().bytes
	r.segments[len(r.segments)-1] = &sealed
	r.file, r.synced = nil, true
	return err
}

// sync makes what was written safe from a crash of the machine.
func (r *ring) sync() error {
	if r.file == nil || r.synced {
		return nil
	}
	err := r.disk.sync(r.file)
	r.synced = err == nil
	return err
}

func (r *ring) syncFolder() error {
	dir, err := os.Open(r.config.Folder)
	if err != nil {
		return err
	}
	return errors.Join(r.disk.sync(dir), dir.Close())
}

// trim drops what is too old, if the clock is believed, and then, if the ring is too large, the oldest of those that take
// most.
func (r *ring) trim(now time.Time, believed bool) error {
	oldest := now.Add(-r.config.Age)
	if r.file != nil && r.grows.Records > 0 && r.grows.Oldest.Before(now.Add(-r.config.Age/segmentsMin)) {
		if err := r.seal(); err != nil {
			return err
		}
	}
	for believed && len(r.sealed()) > 0 && r.segments[0].summary.Newest.Before(oldest) {
		if err := r.replace(r.segments[:1], nil); err != nil {
			return err
		}
	}
	if r.bytes <= r.config.Bytes {
		return nil
	}
	return r.drop(r.overdrawn(r.bytes - r.config.Bytes/8*keptPart))
}

func (r *ring) sealed() []*segment {
	if r.file != nil {
		return r.segments[:len(r.segments)-1]
	}
	return r.segments
}

// overdrawn returns how many bytes of which shares must go so that the ring gets smaller by so much, and all shares that
// lose something are equally large afterwards.
func (r *ring) overdrawn(excess int64) map[key]int64 {
	sizes := slices.SortedFunc(maps.Values(r.shares), func(a, b int64) int { return int(b - a) })
	above := int64(0) // how much of the larger ones is above the level
	level := int64(0)
	for i, size := range sizes {
		next := int64(0)
		if i+1 < len(sizes) {
			next = sizes[i+1]
		}
		count := int64(i + 1)
		if above += (size - next) * count; above >= excess {
			level = next + (above-excess)/count
			break
		}
	}
	drops := map[key]int64{}
	for share, size := range r.shares { // order: irrelevant because each is judged alone
		if size > level {
			drops[share] = size - level
		}
	}
	return drops
}

// drop removes the oldest records of some shares, so many bytes of each, from the sealed segments. Segments that become
// small are joined with their neighbours.
func (r *ring) drop(drops map[key]int64) error {
	j := joiner{ring: r, drops: drops}
	for _, s := range slices.Clone(r.sealed()) {
		if len(drops) == 0 {
			break
		}
		if err := j.take(s); err != nil {
			return err
		}
	}
	return j.end()
}

// replace puts a segment, or nothing, in the place of adjacent ones. Its file is there already.
func (r *ring) replace(old []*segment, by *segment) error {
	at := slices.Index(r.segments, old[0])
	gone := slices.Clone(old)
	var with []*segment
	if by != nil {
		with = append(with, by)
	}
	r.mu.Lock()
	r.segments = slices.Replace(slices.Clone(r.segments), at, at+len(gone), with...)
	r.mu.Unlock()
	for _, s := range gone {
		r.exclude(s)
		if by == nil || s.name != by.name {
			if err := os.Remove(r.path(s.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	if by != nil {
		r.bytes += by.bytes
		for share, bytes := range by.summary.Shares { // order: irrelevant because sums are sums
			r.shares[share] += bytes
		}
	}
	return nil
}

// exclude removes a segment from the ring's books.
func (r *ring) exclude(s *segment) {
	r.bytes -= s.bytes
	for share, bytes := range s.summary.Shares { // order: irrelevant because sums are sums
		if r.shares[share] -= bytes; r.shares[share] <= 0 {
			delete(r.shares, share)
		}
	}
}
