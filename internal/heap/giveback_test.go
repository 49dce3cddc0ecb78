package heap

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"runtime/metrics"
	"testing"
	"testing/synctest"
	"time"
)

// TestIdleProcessGivesBack: the garbage of a start, and of a burst of work, is given back once they are over. What
// heartbeats leave is given back when there is enough of it.
func TestIdleProcessGivesBack(t *testing.T) {
	var g giver
	all := uint64(0)
	for i, look := range []struct {
		allocated uint64
		due       bool
	}{
		{10 * mb, false},        // the start
		{100 << 10, true},       // is over
		{100 << 10, false},      // a heartbeat, four times
		{100 << 10, false},      //
		{100 << 10, false},      //
		{300 << 10, true},       // together they are worth it
		{50 * mb, false},        // work
		{2 * mb, false},         // still
		{1 * mb, true},          // not any more
		{0, false},              //
		{worthBytes, true},      //
		{quietBytes, true},      // the most that is quiet
		{quietBytes + 1, false}, // is work
		{0, true},               //
	} {
		all += look.allocated
		if due, idle := g.look(held{allocated: all}); due != look.due || due && !idle {
			t.Errorf("look %d, after %d bytes more: %v", i+1, look.allocated, due)
		}
	}
}

// TestABurstIsGivenBack: a busy process gives back what it needs for nothing until the next collection, if it is much for
// longer than a moment.
func TestABurstIsGivenBack(t *testing.T) {
	var g giver
	all := uint64(0)
	for i, look := range []struct {
		objects, goal, free uint64 // MB
		due                 bool
	}{
		{900, 1200, 100, false}, // a burst
		{300, 420, 700, false},  // it is over
		{310, 420, 690, true},   // and that lasts
		{320, 420, 0, false},    // all was given back
		{300, 420, 120, false},  // a collection has freed as much as the next one waits for
		{300, 420, 120, false},  //
		{300, 420, 220, false},  // a little more is not worth a collection
		{300, 420, 220, false},  //
		{300, 420, 230, false},  // more than a fourth is
		{390, 420, 20, false},   // but it was needed
		{300, 420, 230, false},  //
		{20, 48, 59, false},     // a small process has not enough of it
		{20, 48, 59, false},     //
	} {
		all += 100 * mb
		if due, idle := g.look(held{all, look.objects * mb, look.goal * mb, look.free * mb}); due != look.due || idle {
			t.Errorf("look %d, with %+v: due %v, idle %v", i+1, look, due, idle)
		}
	}
}

var garbage [][]byte

var errOver = errors.New("it is over")

// TestGivenBackToTheMachine: the memory that a burst of work needed is returned to the machine.
func TestGivenBackToTheMachine(t *testing.T) {
	const burst = 64 << 20
	synctest.Test(t, func(t *testing.T) {
		err := GiveBackDuring(t.Context(), func(context.Context) error {
			synctest.Wait() // it has looked at what was allocated before
			for range burst >> 20 {
				garbage = append(garbage, bytes.Repeat([]byte{1}, 1<<20))
			}
			garbage = nil
			before := kept()
			<-time.After(2*lookEvery + 1) // of the virtual clock: one look at the burst, one after it
			synctest.Wait()
			if after := kept(); before < burst || after > before-burst/2 {
				t.Errorf("of %d bytes that were held of the machine's memory %d still are", before, after)
			}
			return errOver
		})
		if !errors.Is(err, errOver) {
			t.Error(err)
		}
	})
	runtime.KeepAlive(garbage)
}

// kept returns how many bytes of the machine's memory the heap holds.
func kept() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(samples)
	var sum uint64
	for _, sample := range samples {
		sum += sample.Value.Uint64()
	}
	return sum
}
