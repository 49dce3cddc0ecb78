package run

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/tenderhq/tender/tender/internal/cli/logtail"
)

// outputs joins the streams of all tasks into two. If there are several tasks, lines stay whole and begin with their
// task.
type outputs struct {
	stdout, stderr io.Writer
	prefixed       bool

	mu     sync.Mutex // one write at a time, of both streams, which may be the same terminal
	failed error      // the first error of a writer
	drawn  string     // the bar that is on the last line of stderr; "" = none
}

func newOutputs(stdout, stderr io.Writer, prefixed bool) *outputs {
	return &outputs{stdout: stdout, stderr: stderr, prefixed: prefixed}
}

func (o *outputs) err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed
}

func (o *outputs) write(w io.Writer, data []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wipe()
	n, err := w.Write(data)
	if err != nil && o.failed == nil {
		o.failed = err
	}
	return n, err
}

// stream is one output of one task that is being copied.
type stream struct {
	name   logtail.Stream
	out    *outputs
	to     io.Writer
	prefix string // "" = bytes are written as they come
	held   []byte // the incomplete line, if prefix is set
}

func (o *outputs) streams(task string) []*stream {
	prefix := ""
	if o.prefixed {
		prefix = task + " | "
	}
	return []*stream{
		{name: logtail.Stdout, out: o, to: o.stdout, prefix: prefix},
		{name: logtail.Stderr, out: o, to: o.stderr, prefix: prefix},
	}
}

// heldBytesMax is how many bytes of a line are held; a longer one is split.
const heldBytesMax = 64 << 10

// Write writes bytes; with a prefix, only whole lines.
func (s *stream) Write(data []byte) (int, error) {
	if s.prefix == "" {
		return s.out.write(s.to, data)
	}
	s.held = append(s.held, data...)
	end := bytes.LastIndexByte(s.held, '\n') + 1
	if end == 0 && len(s.held) < heldBytesMax {
		return len(data), nil
	}
	if end == 0 {
		end = len(s.held)
	}
	lines := s.held[:end]
	s.held = bytes.Clone(s.held[end:])
	_, err := s.out.write(s.to, s.withPrefix(lines))
	return len(data), err
}

func (s *stream) withPrefix(lines []byte) []byte {
	var text []byte
	for line := range bytes.Lines(lines) {
		text = append(append(text, s.prefix...), line...)
	}
	if text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	return text
}

// flush writes the last line if it has no end.
func (s *stream) flush() error {
	if len(s.held) == 0 {
		return nil
	}
	_, err := s.out.write(s.to, s.withPrefix(s.held))
	s.held = nil
	return err
}

// follow copies both outputs of the source's task to their end.
func (o *outputs) follow(ctx context.Context, source *logtail.Source, ended <-chan struct{}, say func(string, ...any)) error {
	task := source.Task
	streams := o.streams(string(task.Task))
	for _, stream := range streams {
		source.Outputs = append(source.Outputs, &logtail.Output{
			Stream: stream.name, To: stream,
			Dropped: func(bytes int64) {
				say("%s: %d bytes of its %s came faster than they were read, and are not kept", task.Task, bytes, stream.name)
			},
		})
	}
	err := source.Follow(ctx, ended)
	if errors.Is(err, logtail.ErrNone) && source.Outputs[0].Offset+source.Outputs[1].Offset == 0 {
		err = nil // the task ended before it had any output
	}
	for _, stream := range streams {
		err = errors.Join(err, stream.flush())
	}
	return err
}
