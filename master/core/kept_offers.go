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
func (c *Core) takeBackKept(wanted []allocator.Inverse) bool {
	before := len(c.offers)
	for _, want := range wanted {
		for _, claim := range want.Victims {
			if claim.Task == "" {
				c.takeBackFrom(claim, want.For)
			}
		}
	}
	return len(c.offers) < before
}

// takeBackFrom rescinds the offers of the agent that the framework keeps in the role. One that has not stood for
// its time stays, whatever the policy says.
func (c *Core) takeBackFrom(claim allocator.Claim, whom api.FrameworkID) {
	a := c.agents[claim.Agent]
	if a == nil || c.frameworks[claim.Framework] == nil {
		return
	}
	kept := make(map[api.OfferID]*offer)
	longest := time.Duration(0)
	for id, o := range a.offers { // order: irrelevant because it goes into a map
		if held := c.now.Sub(o.made); o.framework.id == claim.Framework && o.role == claim.Role && held >= allocator.OfferStands {
			kept[id] = o
			longest = max(longest, held)
		}
	}
	c.rescindAll(kept, fmt.Sprintf("kept unanswered for %s, it was asked back for %s", words.Span(longest), whom))
}

// keptNamedMax bounds the kept offers of an agent that an explanation names.
const keptNamedMax = 3

// keptWords say which offers of the agent others keep, the oldest first.
func (c *Core) keptWords(fw *framework, a *agent, now time.Time) string {
	text, named := "", 0
	for _, o := range sortedOffers(a.offers) {
		held := now.Sub(o.made)
		if o.framework == fw || held < allocator.OfferStands || named == keptNamedMax {
			continue
		}
		named++
		text += fmt.Sprintf("; %s of %s holds %v since %s", o.id, o.framework.id, o.resources, words.Span(held))
	}
	if text != "" && len(fw.demand) == 0 {
		text += ", which is asked back only for a demand that is stated"
	}
	return text
}
