package books

import (
	"github.com/tenderhq/tender/api"
)

// refusal is why a member is not offered an agent. The zero value is no refusal.
type refusal uint8

const (
	granted refusal = iota
	isHeld          // the role is under a limit until the agents are back (R20)
	failsConstraint
	nothingLeft
	isFreed     // tasks were asked back for the member itself
	isKept      // what is free is kept for a preemption's demand
	overLimit   // of the role or one above
	isPromised  // what is free is held back for guarantees
	overMost    // its capped offer of this agent is open
	tooLittle   // less than the least worth offering
	nothingFits // none of the shapes that are wanted
	placeFull   // a shape fits, but its place holds as many as are wanted in one
	notNear     // a shape fits, but waits for other agents
	isFiltered
	isPutBy // a shape fits that is spread: first all agents are looked at
)

// portion is what the member may be offered of what the agent has open now, and why
// not if that is nothing. owed: only up to what its roles are guaranteed and lack.
func (b *Books) portion(m *member, a *agent, owed bool) (api.Resources, refusal) {
	b.turn.owed = owed
	if b.hold && m.role.limited {
		return api.Resources{}, isHeld
	}
	if m.gate != nil && !b.passes(m.gate, a) {
		return api.Resources{}, failsConstraint
	}
	offer, why := b.usable(m, a)
	whole := offer
	if why == granted {
		offer, whole, why = b.bounded(m, a, offer, owed)
	}
	if why == granted {
		offer, why = b.wanted(m, a, offer, whole)
	}
	if why != granted {
		return api.Resources{}, why
	}
	return offer, granted
}

// usable is the part of the agent that the member's role gives it access to.
func (b *Books) usable(m *member, a *agent) (api.Resources, refusal) {
	offer := a.open
	if len(a.keeps) > 0 {
		offer = a.unkept()
		if offer.IsZero() && !a.open.IsZero() {
			return offer, isKept
		}
	}
	if !a.plain {
		offer = usableBy(m, offer)
	}
	if offer.IsZero() {
		return offer, nothingLeft
	}
	return offer, granted
}

// usableBy is the part that the member's role, and what it takes, give it access to.
func usableBy(m *member, open api.Resources) api.Resources {
	role, revocable := m.role.name, m.framework.spec.Revocable
	return open.Filter(func(l api.Label) bool {
		return (l.Reserved == "" || role.Within(l.Reserved)) && (revocable || !l.Revocable)
	})
}

// wanted cuts the offer to what the member wants of it: whole shapes of its demand, or
// all that is worth offering. whole is what it could be offered of the agent if neither a demand
// nor a guarantee's lack capped it: filters are compared with that.
func (b *Books) wanted(m *member, a *agent, offer, whole api.Resources) (api.Resources, refusal) {
	b.turn.whole = whole
	if m.demand != nil {
		return b.sized(m, a, offer)
	}
	if !b.worth(m, a, offer) {
		return offer, tooLittle
	}
	if b.turn.owed && !b.meetsLack(offer) {
		return offer, isPromised
	}
	if b.hidden(a, m, whole) {
		return offer, isFiltered
	}
	return offer, granted
}

// worth reports whether the offer is at least what is worth offering.
func (b *Books) worth(m *member, a *agent, offer api.Resources) bool {
	counted := a.counted
	if !same(offer, a.open) {
		b.turn.offer = b.kinds.count(b.turn.offer, offer, everything)
		counted = b.turn.offer
	} else if !a.plain {
		b.turn.offer = b.kinds.count(b.turn.offer, offer, everything)
		counted = b.turn.offer
	}
	if minimum := m.framework.minimum; minimum != nil {
		return counted.holds(minimum)
	}
	for _, l := range b.least {
		if counted.at(l.kind) >= l.amount {
			return true
		}
	}
	return false
}

// everything picks revocable resources too.
func everything(api.Label) bool { return true }
