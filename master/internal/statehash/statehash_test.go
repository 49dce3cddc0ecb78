package statehash_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/master/internal/statehash"
	"github.com/tenderhq/tender/master/registry"
)

// hashing is a registry whose hash takes two seconds to make, and counts how often that is done.
type hashing struct {
	index, made uint64
	*statehash.Hash
}

func newHashing() *hashing {
	h := &hashing{index: 1}
	h.Hash = statehash.New(func() uint64 { return h.index }, func() *registry.State { return &registry.State{Index: h.index} }, func(state *registry.State) string {
		h.made++
		<-time.After(2 * time.Second)
		return fmt.Sprint("hash ", state.Index)
	})
	return h
}

// ask asks for the hash, and says how long it took.
func (h *hashing) ask(t *testing.T, index uint64) time.Duration {
	t.Helper()
	asked := time.Now()
	answer, err := h.Now(t.Context())
	if err != nil || answer.GetAppliedIndex() != index || answer.GetHash() != fmt.Sprint("hash ", index) {
		t.Errorf("the answer is %v, %v, not the hash of %d", answer, err, index)
	}
	return time.Since(asked)
}

// TestHashTakesATenthOfAProcessor: a caller that asks again gets the same hash of the same state at once. It gets that
// of another state only after nine times as long as the last hash took to compute.
func TestHashTakesATenthOfAProcessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHashing()
		if took := h.ask(t, 1); took != 2*time.Second {
			t.Errorf("the first one took %v", took)
		}
		if took := h.ask(t, 1); took != 0 {
			t.Errorf("the same one took %v", took)
		}
		for index := uint64(2); index <= 5; index++ {
			h.index = index
			if took := h.ask(t, index); took != 20*time.Second {
				t.Errorf("another one took %v", took)
			}
		}
		h.index++
		<-time.After(time.Minute)
		if took := h.ask(t, 6); took != 2*time.Second {
			t.Errorf("one after a rest took %v", took)
		}
	})
}

// TestHashIsMadeOnceForAllWhoWait: and never of a state that was over when they asked.
func TestHashIsMadeOnceForAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHashing()
		var all sync.WaitGroup
		all.Go(func() { h.ask(t, 1) })
		synctest.Wait()
		h.index = 2
		<-time.After(time.Second) // the first one is being made
		for range 10 {
			all.Go(func() { h.ask(t, 2) })
		}
		all.Wait()
		if h.made != 2 {
			t.Errorf("%d hashes were made of two states", h.made)
		}
	})
}

// TestHashIsNotWaitedForLonger than the caller wants, neither by the caller that computes it nor by one that waits for
// that.
func TestHashIsNotWaitedForLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHashing()
		h.ask(t, 1)
		h.index = 2
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if answer, err := h.Now(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the answer is %v, %v", answer, err)
				}
			})
		}
		all.Wait()
		if took := h.ask(t, 2); took != 19*time.Second {
			t.Errorf("who asks on waits for %v", took)
		}
	})
}
