// Package testlog is the log of what a test starts.
package testlog

import (
	"sync"
	"testing"

	"github.com/rs/zerolog"
)

// New returns a logger that writes to the test's own log, from Info on, until the test ends. Later lines are dropped: a
// library may have goroutines that end, and log that, after the code that started them.
func New(t testing.TB) zerolog.Logger {
	w := &writer{t: t}
	t.Cleanup(w.end)
	return zerolog.New(w).Level(zerolog.InfoLevel)
}

type writer struct {
	mu sync.Mutex
	t  testing.TB // nil: the test has ended; guarded by mu
}

func (w *writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.t != nil {
		w.t.Logf("%s", line)
	}
	return len(line), nil
}

func (w *writer) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.t = nil
}
