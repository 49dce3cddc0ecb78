package allocatortest

import (
	"slices"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// filter is what remains of a refusal.
type filter struct {
	claim allocator.Claim
	until time.Time
	// seen is the most that the framework may have known to be free on the agent. A policy may compare with that, or
	// with what was refused. The latter is less if a demand capped the offer.
	seen api.Resources
	// sure: the policy must have this filter, so an agent with no more than was refused must not be offered. Of other
	// filters the ledger can't tell whether the policy has them.
	sure bool
}

// hides reports whether the filter may hide the agent while this much of it is free for the framework.
func (f filter) hides(free api.Resources, now time.Time) bool {
	return now.Before(f.until) && f.seen.Contains(free)
}

func (f filter) of(id api.FrameworkID, role api.Role, agent api.AgentID) bool {
	return f.claim.Framework == id && f.claim.Role == role && f.claim.Agent == agent
}

// shown is what a framework last saw of an agent in a role.
type shown struct {
	whole api.Resources // what was free for it, or in its offers, less what it has launched of those
}

func pairKey(claim allocator.Claim) string {
	return key(claim.Framework, claim.Role) + " " + string(claim.Agent)
}

// usable returns the part of the free resources that the framework may be offered in the role.
func (c *Cluster) usable(id api.FrameworkID, role api.Role, free api.Resources) api.Resources {
	if !c.Frameworks[id].Revocable {
		free = free.Firm()
	}
	return free.UsableBy(role)
}

// show notes what a framework learns by a new offer. free is what the agent had free before the round.
func (c *Cluster) show(o allocator.Claim, free api.Resources) {
	var before api.Resources
	for _, open := range c.Offers {
		if pairKey(open) == pairKey(o) {
			before = before.Plus(open.Resources)
		}
	}
	whole := c.usable(o.Framework, o.Role, free).Plus(before)
	if old := c.shown[pairKey(o)]; !before.IsZero() && old.whole.Contains(whole) {
		whole = old.whole
	}
	c.shown[pairKey(o)] = shown{whole}
	c.offeredAt[o.Agent] = c.Now
}

// launchShown subtracts a launched task from what its framework has seen.
func (c *Cluster) launchShown(task allocator.Claim) {
	s := c.shown[pairKey(task)]
	s.whole = s.whole.Without(task.Resources)
	c.shown[pairKey(task)] = s
}

// refuse adds a filter. An offer that came back with nothing launched gets a filter even if none was asked for: until
// DefaultOfferAgain after its agent was last offered.
func (c *Cluster) refuse(claim allocator.Claim, refuse time.Duration, untouched bool) {
	s := c.shown[pairKey(claim)]
	one := filter{claim, c.Now.Add(refuse), s.whole.Plus(claim.Resources), true}
	if refuse > 0 {
		c.Policy.Refuse(claim, one.until)
	} else {
		c.Policy.Refuse(claim, time.Time{})
	}
	c.filters = append(c.filters, one)
	if again := c.offeredAt[claim.Agent].Add(allocator.DefaultOfferAgain); untouched && again.After(one.until) {
		one.until, one.sure = again, !c.mixed[pairKey(claim)]
		c.filters = append(c.filters, one)
	}
	if !c.hasOffer(claim) {
		delete(c.mixed, pairKey(claim))
	}
}

// hasOffer reports whether the framework has an open offer of the agent in the role.
func (c *Cluster) hasOffer(claim allocator.Claim) bool {
	return slices.ContainsFunc(c.Offers, func(o allocator.Claim) bool { return pairKey(o) == pairKey(claim) })
}

// noteLaunch notes that a framework launched from one of several offers that it has of an agent in a role. A policy
// counts what is held, and not offers. So of the remaining offers it may no longer know that nothing was launched from
// them.
func (c *Cluster) noteLaunch(offer allocator.Claim) {
	if c.hasOffer(offer) {
		c.mixed[pairKey(offer)] = true
	}
}

func (c *Cluster) dropFilters(which func(filter) bool) {
	c.filters = slices.DeleteFunc(c.filters, func(f filter) bool { return which(f) || !c.Now.Before(f.until) })
}

// lift ends a framework's filters of the agent on which one of its tasks has ended.
func (c *Cluster) lift(task allocator.Claim) {
	c.dropFilters(func(f filter) bool { return f.claim.Framework == task.Framework && f.claim.Agent == task.Agent })
}

// demandChanged ends the framework's filters in the role if the demand has grown.
func (c *Cluster) demandChanged(id api.FrameworkID, role api.Role, before []api.Shape, stated bool, now []api.Shape) {
	grows := !stated
	for _, s := range now {
		grows = grows || wanted(now, s, false) > wanted(before, s, false) || wanted(now, s, true) > wanted(before, s, true)
	}
	if grows {
		c.dropFilters(func(f filter) bool { return f.claim.Framework == id && f.claim.Role == role })
	}
}

// wanted counts the tasks that are wanted with the resources and constraint of the shape like. With anywhere it leaves
// out shapes that take only preferred agents.
func wanted(shapes []api.Shape, like api.Shape, anywhere bool) (n int64) {
	for _, s := range shapes {
		if s.Constraint == like.Constraint && s.Resources.Equal(like.Resources) && !(anywhere && s.OnlyPreferred) {
			n += s.Count
		}
	}
	return n
}

// checkFilters fails if the offer is hidden by a filter: its agent has no more free than was refused.
func (c *Cluster) checkFilters(o allocator.Claim, free api.Resources, words string) {
	c.Helper()
	free = c.usable(o.Framework, o.Role, free)
	for _, f := range c.filters {
		if f.of(o.Framework, o.Role, o.Agent) && f.sure && c.Now.Before(f.until) && f.claim.Resources.Contains(free) {
			c.Fatalf("offered what was refused (%s) and is filtered: %s", f.claim.Resources, words)
		}
	}
}
