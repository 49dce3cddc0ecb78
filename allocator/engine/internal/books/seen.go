package books

import (
	"slices"

	"github.com/tenderhq/tender/api"
)

// seen is what a member could have had of an agent when it was offered part of it: what it was
// offered, less what it has launched of that since, and what its demand left out. A filter hides
// the agent while it has no more than that for the member: whoever refuses a part because it
// wants no more knows the rest as well.
type seen struct {
	member *Member
	whole  api.Resources
}

// seenBy is the agent's note of the member, or nil: then it saw what it was offered.
func (a *Agent) seenBy(m *Member) *seen {
	if !a.Noted {
		return nil
	}
	for i := range a.seen {
		if a.seen[i].member == m {
			return &a.seen[i]
		}
	}
	return nil
}

// NoteSeen remembers what the member sees of the agent as it is offered a first part of it in
// this turn. What it holds open of the agent from earlier turns belongs to it.
func (b *Books) NoteSeen(a *Agent, m *Member, whole, offer api.Resources) {
	if !b.Turn.Proposed(m).IsZero() {
		return
	}
	one := a.seenBy(m)
	if a.HasOffer(m) {
		whole = whole.Plus(a.SumOf(m, true))
		if one != nil && Covers(one.whole, whole) {
			return
		}
	}
	switch {
	case one != nil:
		one.whole = whole
	case !Same(whole, offer):
		a.forgetSeen()
		a.seen = append(a.seen, seen{m, whole})
		a.Note()
	}
}

// NoteSated widens what the member has seen to all that it may use of what the agent had when
// its turn began: it was offered all that it wants, so that what others took of the agent at
// the same time has cost it nothing. What it holds open of the agent from earlier turns belongs to it.
func (b *Books) NoteSated(a *Agent, m *Member) {
	whole := b.Turn.Began
	if !a.Plain {
		whole = UsableBy(m, whole)
	}
	if held, now := a.SumOf(m, true), b.Turn.Proposed(m); !Same(held, now) {
		whole = whole.Plus(held.Without(now))
	}
	one := a.seenBy(m)
	switch {
	case one == nil:
		a.forgetSeen()
		a.seen = append(a.seen, seen{m, whole})
		a.Note()
	case !Covers(one.whole, whole):
		one.whole = whole
	}
}

// Note says whether there is something to look at.
func (a *Agent) Note() { a.Noted = len(a.seen) > 0 || a.Owed != "" }

// forgetSeen makes room by dropping what was noted for offers that are answered.
func (a *Agent) forgetSeen() {
	if len(a.seen) == cap(a.seen) {
		a.seen = slices.DeleteFunc(a.seen, func(s seen) bool { return s.member.Role == nil || !a.HasOffer(s.member) })
	}
}

// LaunchSeen takes what was launched out of what the member has seen.
func (a *Agent) LaunchSeen(m *Member, launched api.Resources) {
	if one := a.seenBy(m); one != nil {
		one.whole = Less(one.whole, launched)
	}
}

// RefusedOf is what a filter hides when the member refuses (part of) an offer. Its other offers of
// the agent, which it has not answered, are not refused with it.
func (a *Agent) RefusedOf(m *Member, refused api.Resources) api.Resources {
	one := a.seenBy(m)
	if one == nil || !Covers(one.whole, refused) {
		return refused
	}
	whole := one.whole
	if a.HasOffer(m) {
		one.whole = Less(whole, refused)
		whole = whole.Without(a.SumOf(m, true))
	}
	return whole
}
