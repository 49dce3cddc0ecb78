package entry

import (
	"os"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Work that leaves its thread otherwise than it was is never done on the first thread, which would stay like that.
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
