package core_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/inputs"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/core"
)

// holdings are what the policy takes for held, computed from what it was told and has proposed. The core keeps the same
// in its ledgers, and the two must not differ. Otherwise the policy would propose for ever what the core takes back.
type holdings map[api.AgentID]map[api.FrameworkID]api.Resources

// listen has a leader's policy heard from its beginning.
func (h holdings) listen(policy allocator.Allocator) allocator.Allocator {
	clear(h)
	return inputs.NewTap(policy, h.note, func(allocation allocator.Allocation) {
		for _, claim := range allocation.Offers {
			h.take(claim)
		}
	})
}

func (h holdings) note(input inputs.Input) {
	switch input := input.(type) {
	case inputs.Take:
		h.take(input.Claim)
	case inputs.Return:
		held := h[input.Claim.Agent]
		held[input.Claim.Framework] = held[input.Claim.Framework].Without(input.Claim.Resources)
	case inputs.RemoveAgent:
		delete(h, input.Agent)
	case inputs.RemoveFramework:
		for _, held := range h { // order: irrelevant because each is changed by itself
			delete(held, input.Framework)
		}
	}
}

func (h holdings) take(claim allocator.Claim) {
	if h[claim.Agent] == nil {
		h[claim.Agent] = make(map[api.FrameworkID]api.Resources)
	}
	h[claim.Agent][claim.Framework] = h[claim.Agent][claim.Framework].Plus(claim.Resources)
}

// check compares them with the ledgers of the agents that the policy may offer.
func (h holdings) check(c *core.Core) error {
	for id, booked := range c.BookedOnOffered() { // order: irrelevant because one that differs is enough
		var held api.Resources
		for _, framework := range slices.Sorted(maps.Keys(h[id])) {
			held = held.Plus(h[id][framework])
		}
		if !held.Equal(booked) {
			return fmt.Errorf("agent %s: the policy takes %v for held, the ledger %v", id, held, booked)
		}
	}
	return nil
}
