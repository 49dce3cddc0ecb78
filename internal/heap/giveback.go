// Package heap decides when the garbage of a process is collected and when its memory goes back to the machine, never
// what is kept: a process with little in use collects from a floor on, and one that is idle gives back what it needed
// for its start or for a burst of work: garbage, and the pages of the program that it has mapped.
package heap

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	// lookEvery is the time between two looks at how much the process has allocated.
	lookEvery = 5 * time.Second
	// quietBytes is how much an idle process allocates at most between two looks, with a heartbeat a second.
	quietBytes = 1 << 20
	// worthBytes is how much must have been allocated before memory is given back again, which takes some milliseconds
	// of a processor.
	worthBytes = 512 << 10
)

// GiveBackDuring does work, and meanwhile gives memory back whenever the process is idle; it changes nothing while the
// process is busy. It returns the error of work. Go's own collector runs when as much was allocated as was in use
// before, which takes an idle process minutes, and it keeps most of the memory that it frees, for later use.
func GiveBackDuring(ctx context.Context, work func(context.Context) error) error {
	giving, end := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() { run(giving) })
	defer ended.Wait()
	defer end()
	return work(ctx)
}

// run gives memory back whenever the process is idle, until the context ends.
func run(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	g := giver{seen: allocated()}
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if g.look(allocated()) {
			debug.FreeOSMemory()
			giveBackCode()
		}
	}
}

// giver decides when memory is given back.
type giver struct {
	seen  uint64 // bytes that were ever allocated, at the last look
	given uint64 // the same, when memory was given back
}

// look reports whether memory is to be given back now. allocated is how many bytes the process has ever allocated.
func (g *giver) look(allocated uint64) bool {
	busy := allocated-g.seen > quietBytes
	g.seen = allocated
	if busy || allocated-g.given < worthBytes {
		return false
	}
	g.given = allocated
	return true
}

// allocated returns how many bytes this process has ever allocated on its heap.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
