package history

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
)

// record is an event or a gap that is to be written.
type record struct {
	kind    byte
	notable bool
	event   []byte // encoded
	card
	lost *loss // of a gap whose event is made of it when it is written; nil: the event is complete
}

// card is what a segment notes of a record, so that its event is read only once on its way to the disk.
type card struct {
	moment
	share key
	keys  []key // by which it is found
}

// cardOf returns the card of an event or a gap. Its keys are appended to keys, which has none.
func cardOf(kind byte, e *wire.Event, keys []key) card {
	if kind == gapFrame {
		return card{moment: moment{e.At, e.Cursor}, keys: append(keys, gapKey)}
	}
	return card{moment{e.At, e.Cursor}, shareOf(e), keysOf(keys, e)}
}

// summary says what is in a segment. It stands behind the records.
type summary struct {
	Records        int
	First, Last    wire.Cursor
	Oldest, Newest time.Time
	// Shares is how many bytes each share takes.
	Shares map[key]int64
	// Bad is how many bytes between the records can't be read.
	Bad int64 `json:",omitempty"`
}

// contents grows with a segment: what its summary and its index will say.
type contents struct {
	summary
	index
}

// newContents returns contents with room for what the former one came to hold.
func newContents(former *contents) *contents {
	c := &contents{}
	if former != nil {
		c.offsets, c.postings = make([]byte, 0, len(former.offsets)), make([]byte, 0, len(former.postings))
	}
	return c
}

// add notes that a record stands at an offset, in so many bytes.
func (c *contents) add(offset, bytes int64, of *card) {
	if c.Records == 0 {
		c.First, c.Oldest, c.Newest, c.Shares = of.cursor, of.at, of.at, map[key]int64{}
	}
	c.Records++
	c.Last = of.cursor
	if of.at.Before(c.Oldest) {
		c.Oldest = of.at
	}
	if of.at.After(c.Newest) {
		c.Newest = of.at
	}
	c.Shares[of.share] += bytes
	c.index.add(uint32(offset), of.keys)
}

// read notes what a whole frame at an offset holds. It returns false if that is none of ours, or stands there again.
func (c *contents) read(offset int64, f frame) bool {
	var e wire.Event
	if e.Read(f.payload()) != nil {
		return false
	}
	order := e.Cursor.Compare(c.Last)
	if c.Records > 0 && (order < 0 || order == 0 && f.kind() == eventFrame) {
		return false
	}
	var keys [16]key
	of := cardOf(f.kind(), &e, keys[:0])
	of.share = f.share() // by which whoever wrote it counted it
	c.add(offset, int64(len(f)), &of)
	return true
}

// recovered is what is left of a segment that has no summary.
type recovered struct {
	contents
	end  int      // of the records
	harm []string // says what is not as it was written
}

// recoverRecords reads a segment by its records alone.
func recoverRecords(name string, data []byte) *recovered {
	r := &recovered{}
	var strange []span
	end, bad := walk(data, func(at int, f frame) {
		if !r.read(int64(at), f) {
			strange = append(strange, span{at, at + len(f)})
		}
	})
	if last := len(bad) - 1; last >= 0 && bad[last].to == len(data) {
		end, bad = bad[last].from, bad[:last]
		r.harm = append(r.harm, fmt.Sprintf("the last %d bytes of %s are no record and were cut off, as after a kill in the middle of a write", len(data)-end, name))
	}
	for _, span := range append(bad, strange...) {
		r.Bad += int64(span.to - span.from)
		r.harm = append(r.harm, fmt.Sprintf("%d bytes of %s at byte %d are damaged and were skipped", span.to-span.from, name, span.from))
	}
	r.end = end
	return r
}

const trailerBytes = 12

// tail returns what a segment ends with that has so many bytes of records, and where its index begins.
func (c *contents) tail(bytes int64) (to []byte, indexAt int64, err error) {
	text, err := json.Marshal(c.summary)
	if err != nil {
		return nil, 0, err
	}
	to = endFrame(append(beginFrame(nil, summaryFrame, 0), text...), 0)
	index := len(to)
	to = endFrame(c.append(beginFrame(to, indexFrame, 0)), index)
	trailer := len(to)
	to = binary.LittleEndian.AppendUint32(to, uint32(bytes))
	indexAt = bytes + int64(index)
	to = binary.LittleEndian.AppendUint32(to, uint32(indexAt))
	return binary.LittleEndian.AppendUint32(to, crc32.Checksum(to[trailer:], castagnoli)), indexAt, nil
}

// segment is a file of a ring. All but the last one of a ring are sealed and change no more.
type segment struct {
	name    string
	numbers span // of the files that it has taken the place of, both included
	bytes   int64
	summary summary
	// memory is the index of a segment that has none on disk; nil: it has one, from indexAt to its trailer.
	memory  *index
	indexAt int64
}

// errUnsealed means that a file does not end as sealed segments do.
var errUnsealed = errors.New("no summary")

// readSummary reads what a sealed segment says of itself.
func readSummary(file io.ReaderAt, size int64) (s summary, indexAt int64, err error) {
	if size < trailerBytes {
		return s, 0, errUnsealed
	}
	trailer := make([]byte, trailerBytes)
	if _, err := file.ReadAt(trailer, size-trailerBytes); err != nil {
		return s, 0, err
	}
	summaryAt, indexAt := int64(binary.LittleEndian.Uint32(trailer)), int64(binary.LittleEndian.Uint32(trailer[4:]))
	if binary.LittleEndian.Uint32(trailer[8:]) != crc32.Checksum(trailer[:8], castagnoli) || summaryAt > indexAt || indexAt > size-trailerBytes {
		return s, 0, errUnsealed
	}
	text := make([]byte, indexAt-summaryAt)
	if _, err := file.ReadAt(text, summaryAt); err != nil {
		return s, 0, err
	}
	f, ok := cutFrame(text, len(text))
	if !ok || f.kind() != summaryFrame || json.Unmarshal(f.payload(), &s) != nil {
		return s, 0, errUnsealed
	}
	return s, indexAt, nil
}

// openIndex returns the index of the segment, whose file is open; it may use the buffer. damaged says that the one on
// disk was of no use and that the records were read instead.
func (s *segment) openIndex(file io.ReaderAt, buffer *[]byte) (x *index, damaged bool, err error) {
	if s.memory != nil {
		return s.memory, false, nil
	}
	*buffer = slices.Grow((*buffer)[:0], int(s.bytes-trailerBytes-s.indexAt))
	data := (*buffer)[:s.bytes-trailerBytes-s.indexAt]
	if _, err := file.ReadAt(data, s.indexAt); err != nil {
		return nil, false, err
	}
	if f, ok := cutFrame(data, len(data)); ok && f.kind() == indexFrame {
		if x, ok := readIndex(f.payload()); ok {
			return x, false, nil
		}
	}
	data = make([]byte, s.bytes)
	if _, err := file.ReadAt(data, 0); err != nil {
		return nil, true, err
	}
	return &recoverRecords(s.name, data).index, true, nil
}

// readRecord reads the record at an offset; not ok means that it can't be read any more.
func readRecord(file io.ReaderAt, offset uint32) (kind byte, e *apiv1.Event, ok bool) {
	// Most records are short, so that one read suffices.
	buffer := make([]byte, 512)
	n, _ := file.ReadAt(buffer, int64(offset)) // at the end of the file there is less
	if n < frameBytes {
		return 0, nil, false
	}
	if length := binary.LittleEndian.Uint32(buffer) + frameBytes; int(length) > n && length <= payloadBytesMax+frameBytes {
		buffer = make([]byte, length)
		n, _ = file.ReadAt(buffer, int64(offset)) // what is missing, the checksum tells
	}
	f, whole := cutFrame(buffer[:n], payloadBytesMax)
	e = &apiv1.Event{}
	if !whole || f.kind() > gapFrame || proto.Unmarshal(f.payload(), e) != nil {
		return 0, nil, false
	}
	return f.kind(), e, true
}

// parseName reads the name of a segment's file.
func parseName(ring, name string) (numbers span, ok bool) {
	n, err := fmt.Sscanf(name, ring+"-%d-%d"+suffix, &numbers.from, &numbers.to)
	return numbers, n == 2 && err == nil && name == nameOf(ring, numbers) && numbers.from <= numbers.to
}

func nameOf(ring string, numbers span) string {
	return fmt.Sprintf("%s-%012d-%012d%s", ring, numbers.from, numbers.to, suffix)
}

// suffix ends the names of segments. temporary ends that of a segment that is not whole yet.
const (
	suffix    = ".events"
	temporary = ".new"
)
