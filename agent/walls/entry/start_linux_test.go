package entry

import (
	"os"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Work is never done on the first thread of the process, which would stay as the work leaves it.
func TestTheFirstThreadIsLeftAlone(t *testing.T) {
	for round := range 200 {
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				runtime.Gosched() // so that others run first, on any thread
				OnThread(func() (asBefore bool) {
					if unix.Gettid() == os.Getpid() {
						t.Errorf("round %d: it is done on the first thread", round)
					}
					return round%2 == 0
				})
			})
		}
		all.Wait()
	}
}
