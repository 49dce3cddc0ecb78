// Package statehash computes the hash of the registry for callers that ask for it.
package statehash

import (
	"context"
	"time"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/master/registry"
)

// rest is how many times as long as the last hash took no new one is computed.
const rest = 9

// Hash computes the registry's hash on request. For 50,000 agents that takes seconds of a processor. So only one hash
// is computed at a time, once for each state, for all callers that wait for it together. It is computed so seldom that
// callers who keep asking use at most a tenth of a processor. It is safe for concurrent use.
type Hash struct {
	index func() uint64                // returns the present index of the registry
	state func() *registry.State       // returns a copy of the registry that does not change
	make  func(*registry.State) string // computes its hash
	turn  chan struct{}                // held by the goroutine that uses the fields below
	last  *apiv1.StateHashResponse     // the last result; nil: none yet
	began time.Time                    // when computing last began
	next  time.Time                    // when another one may be computed
}

// New makes a Hash with these functions. The functions index and state may be called at any time.
func New(index func() uint64, state func() *registry.State, hash func(*registry.State) string) *Hash {
	return &Hash{index: index, state: state, make: hash, turn: make(chan struct{}, 1)}
}

// Now returns the hash of a state that the registry had at some time during this call.
func (h *Hash) Now(ctx context.Context) (*apiv1.StateHashResponse, error) {
	asked := time.Now()
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if h.last != nil && (h.began.After(asked) || h.last.GetAppliedIndex() == h.index()) {
		return h.last, nil
	}
	if wait := time.Until(h.next); wait > 0 && !pause.For(ctx, wait) {
		return nil, ctx.Err()
	}
	h.began = time.Now()
	state := h.state()
	h.last = &apiv1.StateHashResponse{AppliedIndex: state.Index, Hash: h.make(state)}
	h.next = time.Now().Add(rest * time.Since(h.began))
	return h.last, nil
}
