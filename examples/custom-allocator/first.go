package main

import (
	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/engine"
)

// newFirst serves frameworks in the order in which they first appeared: who came first has all it
// wants before the next is offered anything. Everything else (quota, reservations, filters, demand,
// explanations) is the bookkeeping that the built-in policies share.
func newFirst(config allocator.Config) (allocator.Allocator, error) {
	return engine.Ordered(config, engine.Order{
		Less:    func(a, b engine.Standing) bool { return a.Joined < b.Joined },
		Because: func(first, other engine.Standing) string { return first.Name + " was there before " + other.Name },
	}), nil
}
