package tail

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Several outputs are sent in one answer as frames. A frame is a byte that says what it is, the length of its content
// in four bytes (big-endian), and the content. The last frame is the end frame: it says that everything was sent.
//
// FrameStdoutAt and FrameStderrAt say at which offset the output goes on, in eight bytes. They are sent when the
// request did not name that offset, or when what lies before it is not kept any more.
const (
	FrameStdout   = 'o'
	FrameStderr   = 'e'
	FrameStdoutAt = 'O'
	FrameStderrAt = 'E'
	FrameEnd      = '.'
)

// frameBytesMax is the longest content that is written or read.
const frameBytesMax = chunkBytes

const (
	frameHead   = 5
	offsetBytes = 8
)

// Frames writes the content of one output as frames.
type Frames struct {
	To   io.Writer
	Kind byte
}

// Write writes each chunk as a frame.
func (f Frames) Write(data []byte) (int, error) {
	wrote := 0
	for len(data) > 0 {
		n := min(len(data), frameBytesMax)
		if err := writeFrame(f.To, f.Kind, data[:n]); err != nil {
			return wrote, err
		}
		data, wrote = data[n:], wrote+n
	}
	return wrote, nil
}

// SkipTo writes a frame that says at which offset the output goes on.
func (f Frames) SkipTo(offset int64) error {
	kind := byte(FrameStdoutAt)
	if f.Kind == FrameStderr {
		kind = FrameStderrAt
	}
	return writeFrame(f.To, kind, binary.BigEndian.AppendUint64(nil, uint64(offset)))
}

// OffsetOf reads the content of a FrameStdoutAt or FrameStderrAt.
func OffsetOf(content []byte) int64 { return int64(binary.BigEndian.Uint64(content)) }

// Flush sends what was written at once.
func (f Frames) Flush() {
	if flusher, can := f.To.(interface{ Flush() }); can {
		flusher.Flush()
	}
}

// WriteEnd writes the end frame.
func WriteEnd(to io.Writer) error { return writeFrame(to, FrameEnd, nil) }

func writeFrame(to io.Writer, kind byte, content []byte) error {
	var head [frameHead]byte
	head[0] = kind
	binary.BigEndian.PutUint32(head[1:], uint32(len(content)))
	if _, err := to.Write(head[:]); err != nil {
		return err
	}
	_, err := to.Write(content)
	return err
}

// ErrCut means that an answer ended before its end frame, so there may be more.
var ErrCut = errors.New("the answer was cut off")

// ReadFrames passes each content to the function, until the end frame. The content is valid only during the call.
func ReadFrames(from io.Reader, take func(kind byte, content []byte) error) error {
	chunk := chunks.Get().(*[chunkBytes]byte)
	defer chunks.Put(chunk)
	var head [frameHead]byte
	for {
		if _, err := io.ReadFull(from, head[:]); err != nil {
			return cutOff(err)
		}
		length := binary.BigEndian.Uint32(head[1:])
		switch {
		case length > frameBytesMax:
			return fmt.Errorf("a frame of %d bytes; at most %d are sent: whoever answered is no agent of this version", length, frameBytesMax)
		case head[0] == FrameEnd:
			return nil
		case head[0] == FrameStdoutAt || head[0] == FrameStderrAt:
			if length != offsetBytes {
				return fmt.Errorf("an offset of %d bytes, instead of %d: whoever answered is no agent of this version", length, offsetBytes)
			}
			if _, err := io.ReadFull(from, chunk[:length]); err != nil {
				return cutOff(err)
			}
			if err := take(head[0], chunk[:length]); err != nil {
				return err
			}
			continue
		}
		if err := readContent(from, chunk[:length], func(part []byte) error { return take(head[0], part) }); err != nil {
			return err
		}
	}
}

// readContent passes on what has arrived of a frame, even if the rest of it does not arrive.
func readContent(from io.Reader, content []byte, take func([]byte) error) error {
	for len(content) > 0 {
		n, err := from.Read(content)
		if n > 0 {
			if failed := take(content[:n]); failed != nil {
				return failed
			}
			content = content[n:]
		}
		if err != nil && len(content) > 0 {
			return cutOff(err)
		}
	}
	return nil
}

func cutOff(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrCut
	}
	return err
}
