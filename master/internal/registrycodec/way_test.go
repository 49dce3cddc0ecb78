package registrycodec_test

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/tenderhq/tender/master/internal/registrycodec"
	"github.com/tenderhq/tender/master/registry/registrytest"
)

// TestHashGivesWay: on a single processor other goroutines get a turn after each agent, not only every 10 ms.
func TestHashGivesWay(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	state := registrytest.Large(1000, 0)
	var over atomic.Bool
	turns, ended := 0, make(chan struct{})
	go func() {
		defer close(ended)
		for !over.Load() {
			turns++
			runtime.Gosched()
		}
	}()
	registrycodec.Hash(state)
	over.Store(true)
	<-ended
	if turns < 500 { // some of them are the collector's
		t.Errorf("somebody else had %d turns while the hash of 1,000 agents was made", turns)
	}
}
