// Package giveback returns memory to the machine that a process needed for its start or for a burst of work and does
// not need while it is idle. Go's own collector runs when there is as much garbage as was in use before, which takes an
// idle process minutes, and it keeps most of what it finds for itself.
//
// It changes nothing while a process is busy.
package giveback

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	// lookEvery is the pause between two looks at how much the process has allocated.
	lookEvery = 5 * time.Second
	// quietBytes is what an idle process allocates at most between two looks, with a heartbeat a second.
	quietBytes = 1 << 20
	// worthBytes have to be allocated before giving back is worth some milliseconds of a processor.
	worthBytes = 512 << 10
)

// During gives back while the process does what it is for, and returns what that does.
func During(ctx context.Context, work func(context.Context) error) error {
	giving, end := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() { run(giving) })
	defer ended.Wait()
	defer end()
	return work(ctx)
}

// run gives back until the context ends.
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
		}
	}
}

// giver decides.
type giver struct {
	seen  uint64 // bytes that were ever allocated, at the last look
	given uint64 // the same, when memory was given back
}

// look says whether memory is to be given back now, when the process has ever allocated so much.
func (g *giver) look(allocated uint64) bool {
	busy := allocated-g.seen > quietBytes
	g.seen = allocated
	if busy || allocated-g.given < worthBytes {
		return false
	}
	g.given = allocated
	return true
}

// allocated is how many bytes of the heap this process has ever allocated.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
