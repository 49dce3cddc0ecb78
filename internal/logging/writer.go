// Package logging writes a log beside the program that makes it, from a level on that can be changed meanwhile. The
// caller never waits: lines that do not fit, because the reader of the log is slow, full or stopped, are dropped,
// counted, and reported once lines flow again.
//
// It never changes the order of lines, and keeps room for warnings and errors.
package logging

import (
	"io"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

const (
	// bytesMax limits the bytes that wait to be written.
	bytesMax = 4 << 20
	// commonBytesMax is the part of it that lines below the level of a warning may use.
	commonBytesMax = 3 << 20
	// If lines below the level of a warning come faster than linesPerSecond, after a burst of linesBurst, they are
	// sampled: of those beyond it, every sampleEvery-th line is kept.
	linesPerSecond = 2_000
	linesBurst     = 10_000
	sampleEvery    = 100
)

// Writer is the writer of a logger. It must be closed at the end.
type Writer struct {
	out  io.Writer
	now  func() time.Time
	wake chan struct{} // has one element when there is something to write, or the end has come
	done chan struct{} // closed when everything is written

	mu       sync.Mutex
	waiting  [][]byte  // guarded by mu
	bytes    int       // the size of waiting and of what is being written; guarded by mu
	dropped  uint64    // how many lines were dropped since the beginning; guarded by mu
	unsaid   uint64    // how many of these were not reported yet; guarded by mu
	room     float64   // how many lines may still come before sampling begins; guarded by mu
	filled   time.Time // when room was last filled; guarded by mu
	beyond   uint64    // how many lines came since sampling began; guarded by mu
	finished bool      // guarded by mu
	kept     []byte    // the newest lines, see Kept; guarded by mu
	before   int64     // how many bytes came before these; guarded by mu
}

// NewWriter makes a writer that writes to out.
func NewWriter(out io.Writer) *Writer { return newWriter(out, time.Now) }

func newWriter(out io.Writer, now func() time.Time) *Writer {
	w := &Writer{out: out, now: now, wake: make(chan struct{}, 1), done: make(chan struct{}), room: linesBurst, filled: now()}
	go w.run()
	return w
}

// Write takes a line, which is treated like a warning. It never waits and never fails.
func (w *Writer) Write(line []byte) (int, error) { return w.WriteLevel(zerolog.WarnLevel, line) }

// WriteLevel takes a line of this level.
func (w *Writer) WriteLevel(level zerolog.Level, line []byte) (int, error) {
	w.mu.Lock()
	kept := !w.finished && w.admit(level, len(line))
	if kept {
		w.waiting = append(w.waiting, append([]byte(nil), line...)) // the logger reuses its bytes
		w.bytes += len(line)
		w.keep(line)
	} else {
		w.dropped++
		w.unsaid++
	}
	w.mu.Unlock()
	if kept {
		w.rouse()
	}
	return len(line), nil
}

// admit says whether a line is kept. Callers hold mu.
func (w *Writer) admit(level zerolog.Level, size int) bool {
	if level >= zerolog.WarnLevel {
		return w.bytes+size <= bytesMax
	}
	if w.bytes+size > commonBytesMax {
		return false
	}
	if level < zerolog.InfoLevel { // details are only logged on request, and are not sampled
		return true
	}
	now := w.now()
	w.room = min(linesBurst, w.room+now.Sub(w.filled).Seconds()*linesPerSecond)
	w.filled = now
	if w.room >= 1 {
		w.room--
		w.beyond = 0
		return true
	}
	w.beyond++
	return w.beyond%sampleEvery == 0
}

func (w *Writer) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Dropped returns how many lines were dropped, or could not be written. A nil writer drops none.
func (w *Writer) Dropped() uint64 {
	if w == nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dropped
}

// Close writes what waits, but takes no longer than patience: the reader of the log may never come back.
func (w *Writer) Close(patience time.Duration) {
	w.mu.Lock()
	w.finished = true
	w.mu.Unlock()
	w.rouse()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-w.done:
	case <-timer.C:
	}
}

// run is the only goroutine that writes.
func (w *Writer) run() {
	defer close(w.done)
	for range w.wake {
		for {
			lines, unsaid, finished := w.take()
			for _, line := range lines {
				_, err := w.out.Write(line)
				w.written(len(line), err)
			}
			if unsaid > 0 {
				w.sayDropped(unsaid)
			}
			if len(lines) == 0 && unsaid == 0 {
				if finished {
					return
				}
				break
			}
		}
	}
}

func (w *Writer) take() (lines [][]byte, unsaid uint64, finished bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines, unsaid, finished = w.waiting, w.unsaid, w.finished
	w.waiting, w.unsaid = nil, 0
	return lines, unsaid, finished
}

// written releases the room of a line. An error can't be reported anywhere; it is only counted.
func (w *Writer) written(bytes int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bytes -= bytes
	if err != nil {
		w.dropped++
	}
}

// sayDropped writes a line that says how many lines are missing before it.
func (w *Writer) sayDropped(unsaid uint64) {
	log := zerolog.New(w.out).Hook(Stamp)
	log.Warn().Uint64("lines", unsaid).Msg("lines of this log were dropped: they came faster than they were taken")
}

// TimeFormat is the format of times in a log, to the microsecond.
const TimeFormat = "2006-01-02T15:04:05.000000Z07:00"

// Stamp adds the time to each line.
var Stamp = zerolog.HookFunc(func(line *zerolog.Event, _ zerolog.Level, _ string) {
	if line.Enabled() { // otherwise another hook has dropped the line
		line.Str(zerolog.TimestampFieldName, time.Now().Format(TimeFormat))
	}
})
