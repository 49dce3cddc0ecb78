// Package frames is what both ends of a command inside a task say to each other, on a connection to the task's agent that
// was upgraded to it. It starts nothing and shows nothing.
package frames

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Upgrade is the protocol to which a connection to an agent is upgraded: frames in both directions. A frame is a byte
// that says what it is, the length of its content in four bytes (big-endian), and the content.
const Upgrade = "tender-exec/1"

// Frames that a client sends. The first one is the command.
const (
	Order    = 'c' // a Command, as JSON
	Stdin    = 'i'
	StdinEnd = 'z'
	Size     = 'w' // of the terminal: rows and columns, two bytes each
	Signal   = 's' // the signal's number, one byte
)

// Frames that an agent sends. The last one is the end.
const (
	Stdout = 'o'
	Stderr = 'e'
	Ended  = 'x' // an End, as JSON
)

// Command is a command to be run inside a task.
type Command struct {
	Argv []string `json:"argv"`
	// TTY gives the command a terminal of this size, of the type Term. Stdout and stderr are then the same.
	TTY  bool   `json:"tty,omitempty"`
	Rows uint16 `json:"rows,omitempty"`
	Cols uint16 `json:"cols,omitempty"`
	Term string `json:"term,omitempty"`
}

// End says how a command ended: with an exit code as shells show it, or why it could not end by itself.
type End struct {
	Code int    `json:"code"`
	Why  string `json:"why,omitempty"`
}

const (
	frameHead = 5
	// frameBytesMax bounds the content of a frame, and so what a session holds in memory in each direction.
	frameBytesMax = 64 << 10
	// chunkBytes is how much is passed on at once.
	chunkBytes = 32 << 10
)

// Writer writes frames. Its methods may be called from several goroutines.
type Writer struct {
	mu sync.Mutex
	to io.Writer
}

// NewWriter makes a writer.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Write writes one frame.
func (w *Writer) Write(kind byte, content []byte) error {
	if len(content) > frameBytesMax {
		return fmt.Errorf("a frame of %d bytes; at most %d are sent", len(content), frameBytesMax)
	}
	frame := make([]byte, frameHead, frameHead+len(content))
	frame[0] = kind
	binary.BigEndian.PutUint32(frame[1:], uint32(len(content)))
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.to.Write(append(frame, content...))
	return err
}

// WriteJSON writes a value as one frame.
func (w *Writer) WriteJSON(kind byte, value any) error {
	content, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return w.Write(kind, content)
}

// WriteSize tells the size of the terminal.
func (w *Writer) WriteSize(rows, cols uint16) error {
	return w.Write(Size, binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, rows), cols))
}

// Copy writes everything from a reader as frames of a kind, until its end.
func (w *Writer) Copy(kind byte, from io.Reader) error {
	chunk := make([]byte, chunkBytes)
	for {
		n, err := from.Read(chunk)
		if n > 0 {
			if failed := w.Write(kind, chunk[:n]); failed != nil {
				return failed
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// Read reads one frame.
func Read(from io.Reader) (kind byte, content []byte, err error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return 0, nil, err
	}
	length := binary.BigEndian.Uint32(head[1:])
	if length > frameBytesMax {
		return 0, nil, fmt.Errorf("a frame of %d bytes; at most %d are read", length, frameBytesMax)
	}
	content = make([]byte, length)
	_, err = io.ReadFull(from, content)
	return head[0], content, err
}
