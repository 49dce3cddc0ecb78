package main

import (
	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/engine"
	"github.com/tenderhq/tender/allocator/fairshare"
)

// newFirst makes the policy "first": frameworks are served in the order in which they first appeared. The first
// framework gets everything that it wants before the next is offered anything.
//
// The policy consists of no more than this. Quota, reservations, filters, demand, constraints and the other
// explanations are the engine's, as they are for the built-in policies.
func newFirst(config allocator.Config) (allocator.Allocator, error) {
	return engine.New(config, engine.Policy{
		Share:   fairshare.DominantShare, // what is shown to people as the share
		Less:    func(a, b engine.Standing) bool { return a.Joined < b.Joined },
		Because: func(first, other engine.Standing) string { return first.Name + " was there before " + other.Name },
	}), nil
}
