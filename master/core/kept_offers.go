package core

import (
	"fmt"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/words"
)

// takeBackKept rescinds the kept offers that the policy asks back for others, and reports whether there were any.
// (Protocol rule R42.)
func (r *offers) takeBackKept(wanted []allocator.Inverse) bool {
	before := len(r.open)
	for _, want := range wanted {
		for _, claim := range want.Victims {
			if claim.Task == "" {
				r.takeBackFrom(claim, want.For)
			}
		}
	}
	return len(r.open) < before
}

// takeBackFrom rescinds the offers of the agent that the framework keeps in the role. One that has not stood for
// its time stays, whatever the policy says.
func (r *offers) takeBackFrom(claim allocator.Claim, whom api.FrameworkID) {
	a := r.agentByID[claim.Agent]
	if a == nil || r.frameworkByID[claim.Framework] == nil {
		return
	}
	kept := make(map[api.OfferID]*offer)
	longest := time.Duration(0)
	for id, o := range a.offers { // order: irrelevant because it goes into a map
		if held := r.now.Sub(o.made); o.framework.id == claim.Framework && o.role == claim.Role && held >= allocator.OfferStands {
			kept[id] = o
			longest = max(longest, held)
		}
	}
	r.rescindAll(kept, fmt.Sprintf("kept unanswered for %s, it was asked back for %s", words.Span(longest), whom))
}
