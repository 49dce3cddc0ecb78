package hostile

import (
	"context"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/tenderhq/tender/internal/pause"
)

const (
	// busySpell is how long a busy thread works at a time, and busyRest how long it rests when the process has used
	// what it is to use.
	busySpell = 100 * time.Microsecond
	busyRest  = time.Millisecond
)

// Busy keeps so many processors busy by so many threads, until ctx ends, and has to do with nobody: what hostile peers do
// to others beyond that, they do by what they say. It returns how much processor time the process has used.
func Busy(ctx context.Context, threads int, processors float64) time.Duration {
	began, had := time.Now(), processorTime()
	behind := func() bool {
		return float64(processorTime()-had) < processors*float64(time.Since(began))
	}
	var all sync.WaitGroup
	for range threads {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for ctx.Err() == nil {
				if !behind() {
					pause.For(ctx, busyRest)
					continue
				}
				for until := time.Now().Add(busySpell); time.Now().Before(until); {
					continue
				}
			}
		})
	}
	all.Wait()
	return processorTime() - had
}

// processorTime is what this process has used.
func processorTime() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0 // there is no such error for a process's own
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
