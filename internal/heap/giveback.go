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
	// needlessBytes is how much memory a busy process keeps at two looks that it does not need until the next collection,
	// so that it gives that back: a burst is over. That takes a collection, so it must be needlessShare of the heap, too.
	needlessBytes = 32 << 20
	needlessShare = 4 // a fourth
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
	g := giver{seen: readHeld().allocated}
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		due, idle := g.look(readHeld())
		if due {
			debug.FreeOSMemory()
		}
		if idle {
			giveBackCode()
		}
	}
}

// giver decides when memory is given back.
type giver struct {
	seen     uint64 // bytes that were ever allocated, at the last look
	given    uint64 // the same, when memory was given back
	needless bool   // at the last look much was needless
}

// held is what a process has of the machine's memory, in bytes.
type held struct {
	allocated uint64 // ever
	objects   uint64 // what the heap has now
	goal      uint64 // at which size of the heap the next collection ends
	free      uint64 // what was given back to nobody
}

// needless returns how much of what is free is not needed until the next collection.
func (h *held) needless() uint64 {
	return h.free - min(h.free, h.goal-min(h.goal, h.objects))
}

// look reports whether memory is to be given back now, and whether the process is idle. The code of an idle process is
// given back at each look, because what it has run since then is little of what the kernel has mapped around it.
func (g *giver) look(now held) (due, idle bool) {
	busy := now.allocated-g.seen > quietBytes
	g.seen = now.allocated
	if needless := now.needless(); needless > needlessBytes && needless > now.goal/needlessShare {
		due, g.needless = g.needless, !g.needless
	} else {
		g.needless = false
	}
	if due = due || !busy && now.allocated-g.given >= worthBytes; due {
		g.given = now.allocated
	}
	return due, !busy
}

func readHeld() held {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/goal:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	return held{samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64(), samples[3].Value.Uint64()}
}
