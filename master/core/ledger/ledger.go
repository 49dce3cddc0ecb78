// Package ledger keeps accounts: of one agent, in which nothing is promised twice, and of one framework, for people. It
// books what it is told and decides nothing. Its fields may be read by anybody; only its methods change them.
package ledger

import (
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/invariant"
)

// Ledger is the account of one agent: what tasks and executors use, and what open offers hold. Holds: used and offered
// together are within the total, unless the agent itself has reported more in use than it has (R25, promise 1).
// Revocable resources are counted separately. They are offered only within the gap, which may later shrink below what
// tasks hold (R28).
type Ledger struct {
	Total   api.Resources // what is not revocable
	Gap     api.Resources // what is revocable, whether tasks hold it or not
	Used    api.Resources // used by tasks and executors
	Offered api.Resources // held by open offers
	// Over is set when the agent has reported more in use than it has. Until enough of that has ended, nothing is free
	// and the account does not balance.
	Over bool
}

// Free returns what no task or executor uses and no offer holds.
func (l *Ledger) Free() api.Resources { return l.whole().Without(l.Used.Plus(l.Offered)) }

// whole returns everything that could be offered, firm and revocable.
func (l *Ledger) whole() api.Resources {
	if l.Gap.IsZero() {
		return l.Total
	}
	return l.Total.Plus(l.Gap)
}

// OverGap returns by how much the revocable resources that offers and tasks hold exceed the gap. It is zero when no
// offer holds revocable resources.
func (l *Ledger) OverGap() api.Resources {
	if !l.Offered.HasRevocable() {
		return api.Resources{}
	}
	return l.Used.Plus(l.Offered).Revocable().Without(l.Gap)
}

// Left returns how much of a scalar would be free if there were no open offers.
func (l *Ledger) Left(name string) api.Milli {
	return l.Total.Scalar(name) - l.Used.Firm().Scalar(name)
}

// Offer books what a new offer holds. It returns false, and books nothing, when that is not free.
func (l *Ledger) Offer(resources api.Resources) bool {
	if l.Over || !l.Free().Contains(resources) {
		return false
	}
	l.Offered = l.Offered.Plus(resources)
	return true
}

// Hold books as offered what an accept keeps while it waits for the registry to commit.
func (l *Ledger) Hold(resources api.Resources) { l.Offered = l.Offered.Plus(resources) }

// Unoffer books the end of an offer.
func (l *Ledger) Unoffer(id api.AgentID, resources api.Resources) {
	rest, held := l.Offered.Minus(resources)
	if !held {
		invariant.Check(false, "agent %s: an offer of %v ends, but only %v is offered", id, resources, l.Offered)
	}
	l.Offered = rest
}

// Use books what a launched task or executor uses.
func (l *Ledger) Use(id api.AgentID, resources api.Resources) {
	l.Used = l.Used.Plus(resources)
	l.balance(id)
}

// Take books what an agent reported as used. It is booked even if it is more than the agent has.
func (l *Ledger) Take(resources api.Resources) {
	l.Used = l.Used.Plus(resources)
	l.Recheck()
}

// Unuse books that a task or executor has ended.
func (l *Ledger) Unuse(resources api.Resources) {
	rest, held := l.Used.Minus(resources)
	if !held { // the agent had reported more than it has, some of it twice
		rest = l.Used.Without(resources)
	}
	l.Used = rest
	if l.Over {
		l.Recheck()
	}
}

// Resize replaces the agent's total.
func (l *Ledger) Resize(total api.Resources) {
	l.Total = total
	l.Recheck()
}

// SetGap replaces the amount that may be offered as revocable.
func (l *Ledger) SetGap(gap api.Resources) { l.Gap = gap }

// Recheck computes anew whether the account balances.
func (l *Ledger) Recheck() { l.Over = !holdsBoth(l.Total, l.Used, l.Offered) }

func (l *Ledger) balance(id api.AgentID) {
	if !l.Over && !holdsBoth(l.Total, l.Used, l.Offered) {
		invariant.Check(false, "agent %s oversold: %v used and %v offered of %v", id, l.Used, l.Offered, l.Total)
	}
}

// holdsBoth reports whether total contains the firm parts of a and b together. It is called for every launch, so it
// avoids computing the sum.
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

// Tally sums scalars over many agents. Ranges and sets can't be added up, so they are left out.
type Tally map[api.Label]api.Milli

// Add adds the scalars of resources to the sums.
func (t Tally) Add(resources api.Resources) {
	for _, item := range resources.Items() {
		if item.Scalar != 0 {
			t[item.Label] += item.Scalar
		}
	}
}

// Sub takes the scalars of resources, which were added before, off the sums.
func (t Tally) Sub(resources api.Resources) {
	for _, item := range resources.Items() {
		if t[item.Label] -= item.Scalar; t[item.Label] == 0 {
			delete(t, item.Label)
		}
	}
}

// Resources returns the sums as resources.
func (t Tally) Resources() api.Resources {
	items := make([]api.Resource, 0, len(t))
	for label, amount := range t { // order: irrelevant because NewResources sorts
		items = append(items, api.Resource{Label: label, Scalar: amount})
	}
	return api.NewResources(items...)
}
