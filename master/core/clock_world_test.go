package core_test

import (
	"testing"
	"time"
	"unsafe"
)

// clockAt returns a time like time.Now: with a wall clock, and with the monotonic time that has passed since the start
// of the process. Package time can't make one from two given clocks, so this function knows how it lays them out;
// TestClockAt compares the result with what times say about themselves.
func clockAt(wall time.Time, passed time.Duration) time.Time {
	const hasMonotonic = 1 << 63
	t := time.Unix(0, 0).UTC()
	layout := (*struct {
		wall uint64
		ext  int64
	})(unsafe.Pointer(&t))
	layout.wall = hasMonotonic | uint64(wall.Unix()-time.Date(1885, 1, 1, 0, 0, 0, 0, time.UTC).Unix())<<30 | uint64(wall.Nanosecond())
	layout.ext = int64(passed)
	return t
}

// setClock sets the wall clock; the monotonic time continues.
func (w *world) setClock(by time.Duration) {
	passed := w.now.Sub(clockAt(w.now.Round(0), 0))
	w.now = clockAt(w.now.Round(0).Add(by), passed)
}

// TestClockAt: a clock that is set shows another time, and no time has passed.
func TestClockAt(t *testing.T) {
	w := &world{now: clockAt(time.Date(2026, 1, 1, 0, 0, 0, 7, time.UTC), time.Hour)}
	before := w.now
	w.now = w.now.Add(time.Minute)
	w.setClock(-9 * time.Hour)
	if passed, shown := w.now.Sub(before), w.now.Round(0).Sub(before.Round(0)); passed != time.Minute || shown != time.Minute-9*time.Hour {
		t.Errorf("%v have passed, and the clock shows %v more", passed, shown)
	}
	if text := before.Round(0).String(); text != "2026-01-01 00:00:00.000000007 +0000 UTC" {
		t.Errorf("the clock shows %s", text)
	}
}
