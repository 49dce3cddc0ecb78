package heap

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

const mb = 1 << 20

func TestPercentFor(t *testing.T) {
	const floor = 48 * mb
	for _, test := range []struct {
		name      string
		now       use
		allocated uint64 // in the 20 seconds before
		percent   int
	}{
		{"hardly anything in use: Go's minimum is the floor", use{heap: 1 * mb}, 0, 1200},
		{"nothing at all", use{}, 0, 1200},
		{"a small master", use{heap: 5 * mb, roots: 1 * mb}, 0, 716},
		{"the same among many peers", use{heap: 16 * mb, roots: 4 * mb}, 0, 160},
		{"half of the floor: from here on it is Go's own rule", use{heap: 24 * mb}, 0, 100},
		{"near the floor", use{heap: 40 * mb}, 0, 100},
		{"above the floor, and much is allocated", use{heap: 400 * mb, roots: 80 * mb}, 2000 * mb, 100},
		{"above it, and half as much as is in use within five seconds", use{heap: 400 * mb, roots: 80 * mb}, 960 * mb, 50},
		{"above it, and next to nothing is", use{heap: 400 * mb, roots: 80 * mb}, 1 * mb, 30},
	} {
		if got := percentFor(floor, test.now, test.allocated, 20*time.Second); got != test.percent {
			t.Errorf("%s: %d percent, want %d", test.name, got, test.percent)
		}
	}
}

// TestHeapGrowsToTheFloor: however much is in use below the floor, the next collection begins at the floor. Above it, it
// begins when less than as much has come, which depends on how fast that comes.
func TestHeapGrowsToTheFloor(t *testing.T) {
	const floor = 64 * mb
	before := debug.SetGCPercent(ownPercent)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	release := HoldFloor(floor)

	for _, inUse := range []int{1 * mb, 8 * mb, 24 * mb} {
		kept := make([]byte, inUse)
		awaitGoal(t, func(goal uint64) bool { return goal > floor*9/10 && goal < floor*12/10 })
		runtime.KeepAlive(kept)
	}
	kept := make([]byte, 2*floor)
	awaitGoal(t, func(goal uint64) bool { return goal > 2*floor*12/10 && goal < 4*floor*12/10 })
	runtime.KeepAlive(kept)

	release()
	if now := debug.SetGCPercent(ownPercent); now != ownPercent {
		t.Errorf("%d percent after the release, want what was there before: %d", now, ownPercent)
	}
}

// awaitGoal collects until the next collection is due at a size that is good. One collection is not enough, because the
// percentage is set in the background.
func awaitGoal(t *testing.T, good func(goal uint64) bool) {
	t.Helper()
	goal := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	for range 1000 {
		runtime.GC()
		if metrics.Read(goal); good(goal[0].Value.Uint64()) {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("the next collection begins at %d bytes", goal[0].Value.Uint64())
}
