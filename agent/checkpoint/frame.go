package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/tenderhq/tender/agent/core"
)

// A log is a header and frames:
//
//	header  magic (8 bytes) generation (8) crc (4) of both
//	frame   crc (4) length (4) sequence (8) payload (length)
//
// All numbers are little-endian. The crc is CRC-32C over everything that follows it in the frame, and over the
// generation, so that a frame is valid only in its own place. The sequence counts from 1 without gaps. Records that
// were appended together follow a frame that says how many they are, and are read all or not at all (R35).
const (
	logMagic     = "TNDRCKP1" // its last byte is the format's number
	headerBytes  = 20
	frameBytes   = 16
	payloadBytes = 4 << 20 // no record is larger, so a larger length is damage
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendHeader(buffer []byte, generation uint64) []byte {
	start := len(buffer)
	buffer = append(buffer, logMagic...)
	buffer = binary.LittleEndian.AppendUint64(buffer, generation)
	return binary.LittleEndian.AppendUint32(buffer, crc32.Checksum(buffer[start:], castagnoli))
}

// cutHeader returns the generation of a log.
func cutHeader(data []byte) (generation uint64, ok bool) {
	if len(data) < headerBytes || string(data[:8]) != logMagic ||
		binary.LittleEndian.Uint32(data[16:]) != crc32.Checksum(data[:16], castagnoli) {
		return 0, false
	}
	return binary.LittleEndian.Uint64(data[8:]), true
}

// appendGroup appends records that are read all together or not at all (R35). One record is written as it is; several
// follow a mark that says how many they are.
func appendGroup(buffer []byte, generation, sequence uint64, records []core.Record) ([]byte, uint64, error) {
	start, err := len(buffer), error(nil)
	if len(records) > 1 {
		sequence++
		buffer, err = appendFrame(buffer, generation, sequence, recordGroup(len(records)))
	}
	for _, record := range records {
		if err == nil {
			sequence++
			buffer, err = appendFrame(buffer, generation, sequence, record)
		}
	}
	if err != nil {
		return buffer[:start], 0, err
	}
	return buffer, sequence, nil
}

// recordGroup is the mark before a group; its value is the number of records.
type recordGroup uint32

// appendFrame appends one record, or the mark of a group.
func appendFrame(buffer []byte, generation, sequence uint64, record any) ([]byte, error) {
	start := len(buffer)
	buffer = append(buffer, make([]byte, frameBytes)...)
	buffer, err := encode(buffer, record)
	if err != nil {
		return buffer[:start], err
	}
	frame := buffer[start:]
	binary.LittleEndian.PutUint32(frame[4:], uint32(len(frame)-frameBytes))
	binary.LittleEndian.PutUint64(frame[8:], sequence)
	binary.LittleEndian.PutUint32(frame, sum(frame[4:], generation))
	return buffer, nil
}

func sum(frame []byte, generation uint64) uint32 {
	var salt [8]byte
	binary.LittleEndian.PutUint64(salt[:], generation)
	return crc32.Update(crc32.Checksum(salt[:], castagnoli), castagnoli, frame)
}

// cutFrame returns the payload of the frame at the start of data, and the length of the whole frame.
func cutFrame(data []byte, generation, sequence uint64) (payload []byte, length int, ok bool) {
	if len(data) < frameBytes {
		return nil, 0, false
	}
	size := binary.LittleEndian.Uint32(data[4:])
	length = frameBytes + int(size)
	if size > payloadBytes || len(data) < length || binary.LittleEndian.Uint64(data[8:]) != sequence ||
		binary.LittleEndian.Uint32(data) != sum(data[4:length], generation) {
		return nil, 0, false
	}
	return data[frameBytes:length], length, true
}

// errNewer does not mean damage: a newer program wrote what can't be read here.
var errNewer = errors.New("a newer version of tender wrote it; start that version, or a newer one")

// checkMagic refuses a file of a newer format, in which anything may follow the magic. A damaged magic is left to the
// checksum.
func checkMagic(data []byte, magic string) error {
	last := len(magic) - 1
	if len(data) <= last || string(data[:last]) != magic[:last] || data[last] <= magic[last] || data[last] > '9' {
		return nil
	}
	return fmt.Errorf("it has format %c and this version reads up to format %c: %w", data[last], magic[last], errNewer)
}

// damage says that a log contains something that nobody wrote.
type damage struct {
	at   int
	what string
}

func (d *damage) Error() string { return fmt.Sprintf("%s at byte %d", d.what, d.at) }

// contents are the whole groups of a log.
type contents struct {
	records []core.Record
	good    int    // the number of bytes they take
	frames  uint64 // the number of frames they take
}

// parse reads a log. What stands behind contents.good is a torn tail. It is damage if a record stands behind it, or if
// it can't be a torn tail.
func parse(data []byte, generation uint64) (contents, error) {
	if err := checkMagic(data, logMagic); err != nil {
		return contents{}, err
	}
	if of, ok := cutHeader(data); !ok || of != generation {
		return contents{}, &damage{0, "a wrong header"}
	}
	whole := contents{good: headerBytes}
	next, missing := whole, 0 // the part of a group that was read, and how many of its records are still missing
	for next.good < len(data) {
		payload, length, ok := cutFrame(data[next.good:], generation, next.frames+1)
		if !ok {
			return whole, tail(data, next.good, generation, next.frames+1)
		}
		record, err := decode(payload)
		group, begins := record.(recordGroup)
		switch {
		case errors.Is(err, errNewer):
			return whole, fmt.Errorf("a record of an unknown kind at byte %d: %w", next.good, err)
		case err != nil:
			return whole, &damage{next.good, "a record that can't be read: " + err.Error()}
		case begins && missing > 0:
			return whole, &damage{next.good, "a group of records inside another one"}
		case begins:
			missing = int(group)
		default:
			next.records = append(next.records, record.(core.Record))
			missing = max(missing-1, 0)
		}
		next.good += length
		next.frames++
		if missing == 0 {
			whole = next
		}
	}
	return whole, nil
}

// tail tells a torn tail from damage. A process that was killed in the middle of a write leaves the beginning of what
// it wrote and nothing behind it. So a whole record anywhere behind the first bad byte means that something else
// happened.
func tail(data []byte, good int, generation, sequence uint64) error {
	const ahead = 1 << 20 // how many records a damaged part may have hidden
	for at := good + 1; at+frameBytes <= len(data); at++ {
		next := binary.LittleEndian.Uint64(data[at+8:])
		if next < sequence || next-sequence > ahead {
			continue
		}
		if _, _, ok := cutFrame(data[at:], generation, next); ok {
			return &damage{good, "damage in the middle of the log"}
		}
	}
	return nil
}
