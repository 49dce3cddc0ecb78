package allocator_test

import (
	"testing"
)

// The benchmarks of make bench-allocator, on a small cluster: every agent is offered in every cycle that should offer
// it.
func TestGridOffersAll(t *testing.T) {
	if early, err := DeclineEarly(fresh, 30, 7, 1000); err != nil || len(early) != 14 {
		t.Errorf("DeclineOffers: %d cycles, %v", len(early), err)
	}
	if _, err := FullCycle(fresh, 30, 7, 3, 2); err != nil {
		t.Error("full cycle:", err)
	}
}
