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
	// busySpell is how long a busy thread works at a time. busyRest is how long it rests when the process has used its
	// share.
	busySpell = 100 * time.Microsecond
	busyRest  = time.Millisecond
)

// Busy keeps that many processors busy with that many threads, until ctx ends, without talking to anybody. What hostile
// peers do to others beyond that is what they send. It returns how much processor time the process has used.
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

// processorTime returns how much processor time this process has used.
func processorTime() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0 // this call can't fail for the own process
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
