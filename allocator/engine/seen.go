package engine

import (
	"slices"

	"github.com/tenderhq/tender/api"
)

// seen is what a member could have had of an agent when it was offered part of it: what it was
// offered, less what it has launched of that since, and what its demand left out. A filter hides
// the agent while it has no more than that for the member: whoever refuses a part because it
// wants no more knows the rest as well.
type seen struct {
	member *member
	whole  api.Resources
}

// seenBy is the agent's note of the member, or nil: then it saw what it was offered.
func (a *agent) seenBy(m *member) *seen {
	if !a.noted {
		return nil
	}
	for i := range a.seen {
		if a.seen[i].member == m {
			return &a.seen[i]
		}
	}
	return nil
}

// noteSeen remembers what the member sees of the agent as it is offered a first part of it in
// this turn. What it holds open of the agent from earlier turns belongs to it.
func (e *books) noteSeen(a *agent, m *member, whole, offer api.Resources) {
	if !e.turn.proposed(m).IsZero() {
		return
	}
	one := a.seenBy(m)
	if a.hasOffer(m) {
		whole = whole.Plus(a.sumOf(m, true))
		if one != nil && covers(one.whole, whole) {
			return
		}
	}
	switch {
	case one != nil:
		one.whole = whole
	case !same(whole, offer):
		a.forgetSeen()
		a.seen = append(a.seen, seen{m, whole})
		a.note()
	}
}

// noteSated widens what the member has seen to all that it may use of what the agent had when
// its turn began: it was offered all that it wants, so that what others took of the agent at
// the same time has cost it nothing.
func (e *books) noteSated(a *agent, m *member) {
	whole := e.turn.began
	if !a.plain {
		whole = usableBy(m, whole)
	}
	one := a.seenBy(m)
	switch {
	case one == nil:
		a.forgetSeen()
		a.seen = append(a.seen, seen{m, whole})
		a.note()
	case !covers(one.whole, whole):
		one.whole = whole
	}
}

// note says whether there is something to look at.
func (a *agent) note() { a.noted = len(a.seen) > 0 || a.owed != "" }

// forgetSeen makes room by dropping what was noted for offers that are answered.
func (a *agent) forgetSeen() {
	if len(a.seen) == cap(a.seen) {
		a.seen = slices.DeleteFunc(a.seen, func(s seen) bool { return s.member.role == nil || !a.hasOffer(s.member) })
	}
}

// launchSeen takes what was launched out of what the member has seen.
func (a *agent) launchSeen(m *member, launched api.Resources) {
	if one := a.seenBy(m); one != nil {
		one.whole = less(one.whole, launched)
	}
}

// refusedOf is what a filter hides when the member refuses (part of) an offer. Its other offers of
// the agent, which it has not answered, are not refused with it.
func (a *agent) refusedOf(m *member, refused api.Resources) api.Resources {
	one := a.seenBy(m)
	if one == nil || !covers(one.whole, refused) {
		return refused
	}
	whole := one.whole
	if a.hasOffer(m) {
		one.whole = less(whole, refused)
		whole = whole.Without(a.sumOf(m, true))
	}
	return whole
}
