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
	const mb = 1 << 20
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
		if due := g.look(all); due != look.due {
			t.Errorf("look %d, after %d bytes more: %v", i+1, look.allocated, due)
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
			before := held()
			<-time.After(2*lookEvery + 1) // of the virtual clock: one look at the burst, one after it
			synctest.Wait()
			if after := held(); before < burst || after > before-burst/2 {
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

// held returns how many bytes of the machine's memory the heap holds.
func held() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(samples)
	var sum uint64
	for _, sample := range samples {
		sum += sample.Value.Uint64()
	}
	return sum
}
