// Package statehash computes the hash of the registry for callers that ask for it.
package statehash

import (
	"context"
	"time"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/master/registry"
)

// rest is how many times as long as it took to make a hash nobody has the next one made.
const rest = 9

// Hash is that of the registry. Of 50,000 agents it takes seconds of a processor to make, so one is made at a time, of
// one state once, for all who wait for it together; and so seldom that those who ask again and again use up a tenth of a
// processor. Any number of callers at a time.
type Hash struct {
	index func() uint64                // of the registry as it is now
	state func() *registry.State       // a picture of it
	make  func(*registry.State) string // its hash
	turn  chan struct{}                // held by who looks at what follows
	last  *apiv1.StateHashResponse     // nil: none was made yet
	began time.Time                    // when the making of last began
	next  time.Time                    // when another one may be made
}

// New is one of a registry whose index, picture and hash these are. Index and state may be called at any time.
func New(index func() uint64, state func() *registry.State, hash func(*registry.State) string) *Hash {
	return &Hash{index: index, state: state, make: hash, turn: make(chan struct{}, 1)}
}

// Now is the hash of a state that was the registry's at some time of this call.
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
