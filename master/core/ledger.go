package core

import (
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/invariant"
)

// ledger is the account of one agent: what tasks and executors use, and what open offers hold. Holds: used and offered
// together are within the total, unless the agent itself has reported more than it has (R25, promise 1). Revocable
// resources are counted beside it: they are offered only within the gap, which may later shrink below what tasks hold
// (R28).
type ledger struct {
	total   api.Resources // of what is not revocable
	gap     api.Resources // of what is revocable, whether tasks hold it or not
	used    api.Resources // by tasks and executors
	offered api.Resources // by open offers
	// over: the agent has reported more in use than it has. Until enough of that ends nothing is free, and the account
	// does not balance.
	over bool
}

// free is what nobody uses or holds.
func (l *ledger) free() api.Resources { return l.whole().Without(l.used.Plus(l.offered)) }

// whole is what there is to offer, firm and revocable.
func (l *ledger) whole() api.Resources {
	if l.gap.IsZero() {
		return l.total
	}
	return l.total.Plus(l.gap)
}

// overGap is what offers and tasks hold of what is revocable beyond what there is.
func (l *ledger) overGap() api.Resources {
	if !l.offered.HasRevocable() {
		return api.Resources{}
	}
	return l.used.Plus(l.offered).Revocable().Without(l.gap)
}

// left is how much of a scalar would be free without open offers.
func (l *ledger) left(name string) api.Milli {
	return l.total.Scalar(name) - l.used.Firm().Scalar(name)
}

// offer books what a new offer holds; false when it is not free.
func (l *ledger) offer(resources api.Resources) bool {
	if l.over || !l.free().Contains(resources) {
		return false
	}
	l.offered = l.offered.Plus(resources)
	return true
}

// unoffer books an offer's end.
func (l *ledger) unoffer(id api.AgentID, resources api.Resources) {
	rest, held := l.offered.Minus(resources)
	if !held {
		invariant.Check(false, "agent %s: an offer of %v ends, but only %v is offered", id, resources, l.offered)
	}
	l.offered = rest
}

// use books what a task or executor holds from a launch.
func (l *ledger) use(id api.AgentID, resources api.Resources) {
	l.used = l.used.Plus(resources)
	l.balance(id)
}

// take books what an agent reported, which stands however much it is.
func (l *ledger) take(resources api.Resources) {
	l.used = l.used.Plus(resources)
	l.recheck()
}

// unuse books an end.
func (l *ledger) unuse(resources api.Resources) {
	rest, held := l.used.Minus(resources)
	if !held { // the agent had reported more than it has, some of it twice
		rest = l.used.Without(resources)
	}
	l.used = rest
	if l.over {
		l.recheck()
	}
}

// resize replaces the total.
func (l *ledger) resize(total api.Resources) {
	l.total = total
	l.recheck()
}

func (l *ledger) recheck() { l.over = !holdsBoth(l.total, l.used, l.offered) }

func (l *ledger) balance(id api.AgentID) {
	if !l.over && !holdsBoth(l.total, l.used, l.offered) {
		invariant.Check(false, "agent %s oversold: %v used and %v offered of %v", id, l.used, l.offered, l.total)
	}
}

// holdsBoth says that total contains what is firm in a and b together. It is asked with every launch, so it does not
// add them up.
func holdsBoth(total, a, b api.Resources) bool {
	a, b = a.Firm(), b.Firm()
	if !total.Contains(a) || !total.Contains(b) {
		return false
	}
	for _, x := range a.Items() {
		y, both := b.Find(x.Label)
		if !both {
			continue
		}
		all, _ := total.Find(x.Label)
		if all.Scalar < x.Scalar+y.Scalar || len(x.Ranges.Intersect(y.Ranges)) > 0 || len(x.Set.Intersect(y.Set)) > 0 {
			return false
		}
	}
	return true
}

// tally sums scalars over many agents, where ranges and sets can't be added up.
type tally map[api.Label]api.Milli

func (t tally) add(resources api.Resources) {
	for _, item := range resources.Items() {
		if item.Scalar != 0 {
			t[item.Label] += item.Scalar
		}
	}
}

func (t tally) sub(resources api.Resources) {
	for _, item := range resources.Items() {
		if t[item.Label] -= item.Scalar; t[item.Label] == 0 {
			delete(t, item.Label)
		}
	}
}

func (t tally) resources() api.Resources {
	items := make([]api.Resource, 0, len(t))
	for label, amount := range t { // order: irrelevant because NewResources sorts
		items = append(items, api.Resource{Label: label, Scalar: amount})
	}
	return api.NewResources(items...)
}
