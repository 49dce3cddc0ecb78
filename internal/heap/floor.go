package heap

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	// ownPercent is the percentage of Go's own rule: as much may be allocated as is in use.
	ownPercent = 100
	// ownMinimumBytes is the least size of the heap at which Go collects, under its own rule. Under another percentage
	// it is that percentage of this size (heapMinimum in runtime/mgcpacer.go).
	ownMinimumBytes = 4 << 20
	// leastPercent is the least percentage for a large heap that is collected rarely.
	leastPercent = 30
	// calmTime is how often a large heap may be collected: then it costs a few percent of a processor at most.
	calmTime = 5 * time.Second
	// worthPercent is the least change of the percentage that is made. Each change stops the process for some
	// microseconds.
	worthPercent = 10
)

// HoldFloor lets the heap grow to so many bytes, the floor, before garbage is collected. Go's own rule has no floor: it
// collects when as much was allocated as is in use. So a process that has little in use and much to do collects many
// times a second. Above the floor Go's own rule holds, as long as much is allocated. A large heap in which little is
// allocated is collected when it has grown by less than that, but not more often than every calmTime: otherwise a leader of
// ten thousand quiet agents would take twice the memory that it has in use. bytes must be at least 4 MiB. The floor holds until release is
// called, which sets the former percentage again. A process must hold only one floor at a time.
//
// Go has a percentage and no floor, so the percentage is chosen anew after each collection. (Known as a tuner of GOGC:
// "How we saved 70K cores across 30 mission-critical services", Uber, 2021. The older way, a block of memory that is
// never touched, lifts the heap by as much whatever else is in use.)
func HoldFloor(bytes uint64) (release func()) {
	h := &holder{floor: bytes, percent: highestPercent(bytes), last: readUse(), at: time.Now()}
	before := debug.SetGCPercent(h.percent)
	h.awaitCollection()
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.released = true
		debug.SetGCPercent(before)
	}
}

// holder chooses the percentage. Its method collected is called once after each collection.
type holder struct {
	floor uint64

	mu       sync.Mutex // guards all below
	percent  int        // the percentage that was set last
	last     use        // at the collection before
	at       time.Time  // when that was
	released bool
}

// sentinel is a value to which nothing refers, so that the next collection frees it. It is not smaller, because Go may
// put small values into one block with others, which may be in use.
type sentinel [64]byte

// awaitCollection arranges that collected is called after the next collection.
func (h *holder) awaitCollection() {
	runtime.AddCleanup(new(sentinel), (*holder).collected, h)
}

func (h *holder) collected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released {
		return
	}
	now, at := readUse(), time.Now()
	percent := percentFor(h.floor, now, now.allocated-h.last.allocated, at.Sub(h.at))
	h.last, h.at = now, at
	if percent-h.percent >= worthPercent || h.percent-percent >= worthPercent {
		h.percent = percent
		debug.SetGCPercent(percent)
	}
	h.awaitCollection()
}

// use is what the last collection found to be in use, in bytes.
type use struct {
	heap  uint64
	roots uint64 // stacks and globals: Go's percentage is a share of these as well
	// allocated is how much this process has ever allocated.
	allocated uint64
}

func readUse() use {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(samples)
	return use{samples[0].Value.Uint64(), samples[1].Value.Uint64() + samples[2].Value.Uint64(), samples[3].Value.Uint64()}
}

// percentFor returns the percentage with which the next collection begins when the heap has grown to the floor. If Go's
// own percentage lets the heap grow further, it returns that, or as much as is allocated in calmTime, at the rate since the
// collection before.
func percentFor(floor uint64, now use, allocated uint64, since time.Duration) int {
	if now.heap >= floor {
		calm := float64(allocated) / max(since.Seconds(), 1e-3) * calmTime.Seconds()
		return int(min(max(100*calm/float64(now.heap+now.roots), leastPercent), ownPercent))
	}
	percent := (floor - now.heap) * 100 / max(now.heap+now.roots, 1)
	return min(max(int(percent), ownPercent), highestPercent(floor))
}

// highestPercent returns the percentage with which Go's minimum is the floor.
func highestPercent(floor uint64) int { return int(floor * 100 / ownMinimumBytes) }
