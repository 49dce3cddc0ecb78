package history

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// A segment is a file: its magic, then frames:
//
//	frame   length (4 bytes) crc (4) kind (1) share (4) payload (length)
//
// All numbers are little-endian. The crc is CRC-32C over all of the frame but itself. The records, which are the frames
// of events and gaps, come first, in the order in which they happened; share tells whose room they take. A sealed segment
// ends with its summary, its index, and the trailer, by which both are found from the end.
const (
	magic      = "TNDREVT1" // its last byte is the format's number
	frameBytes = 13
	// payloadBytesMax bounds an event and a gap; a longer frame is damage. Events that are longer are not kept.
	payloadBytesMax = 64 << 10
)

// The kinds of frames.
const (
	eventFrame   byte = 1 + iota // an event
	gapFrame                     // an event without a thing: its Why says what is missing behind its cursor
	summaryFrame                 // a summary, as JSON
	indexFrame                   // an index
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum is the checksum of a frame: of all of it but the checksum itself.
func sum(frame []byte) uint32 {
	return crc32.Update(crc32.Checksum(frame[:4], castagnoli), castagnoli, frame[8:])
}

// beginFrame appends the head of a frame; endFrame completes it when the payload stands behind it.
func beginFrame(to []byte, kind byte, share key) []byte {
	to = append(to, 0, 0, 0, 0, 0, 0, 0, 0, kind)
	return binary.LittleEndian.AppendUint32(to, uint32(share))
}

// endFrame completes the frame that begins at start and ends with the buffer.
func endFrame(buffer []byte, start int) []byte {
	frame := buffer[start:]
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)-frameBytes))
	binary.LittleEndian.PutUint32(frame[4:], sum(frame))
	return buffer
}

// checkMagic refuses a segment of a newer format, in which anything may follow the magic.
func checkMagic(file io.ReaderAt) error {
	begin, last := make([]byte, len(magic)), len(magic)-1
	if _, err := file.ReadAt(begin, 0); err == nil && string(begin[:last]) == magic[:last] && begin[last] > magic[last] && begin[last] <= '9' {
		return fmt.Errorf("it has format %c and this version reads up to format %c; start the version that wrote it, or a newer one", begin[last], magic[last])
	}
	return nil
}

// frame is a whole frame, as it stands in a file.
type frame []byte

func (f frame) kind() byte      { return f[8] }
func (f frame) share() key      { return key(binary.LittleEndian.Uint32(f[9:])) }
func (f frame) payload() []byte { return f[frameBytes:] }

// cutFrame returns the frame at the start of data, whose payload is at most so long; not ok means that none begins here.
func cutFrame(data []byte, payloadMax int) (frame, bool) {
	if len(data) < frameBytes {
		return nil, false
	}
	size := binary.LittleEndian.Uint32(data)
	if uint64(size) > uint64(payloadMax) || uint64(size) > uint64(len(data)-frameBytes) {
		return nil, false
	}
	f := frame(data[:frameBytes+int(size)])
	if f.kind() < eventFrame || f.kind() > indexFrame || binary.LittleEndian.Uint32(f[4:]) != sum(f) {
		return nil, false
	}
	return f, true
}

// span is a part of a segment.
type span struct{ from, to int }

// walk calls each with every whole record of a segment, in order, and returns where the records end, and the parts in
// which there is none. Behind damage it goes on at the next whole record. It stops at the summary of a sealed segment.
func walk(data []byte, each func(at int, f frame)) (end int, bad []span) {
	at := len(magic) // whatever it has become: the records have their own checksums
	if len(data) < at {
		return 0, []span{{0, len(data)}}
	}
	for at < len(data) {
		f, ok := cutFrame(data[at:], len(data)) // a summary and an index may be long
		switch {
		case ok && f.kind() > gapFrame:
			return at, bad
		case ok && len(f.payload()) <= payloadBytesMax:
			each(at, f)
			at += len(f)
		default:
			next := resync(data, at+1)
			bad = append(bad, span{at, next})
			at = next
		}
	}
	return at, bad
}

// resync returns where the next whole record, or the end, is.
func resync(data []byte, at int) int {
	for ; at+frameBytes <= len(data); at++ {
		if _, ok := cutFrame(data[at:], payloadBytesMax); ok {
			return at
		}
	}
	return len(data)
}
