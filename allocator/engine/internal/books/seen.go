package books

import (
	"slices"

	"github.com/tenderhq/tender/api"
)

// seen is what a member could have had of an agent when it was offered a part of it: the offer, less what was launched
// of it since, and what its demand left out. A filter hides the agent as long as it has no more than that for the
// member, because a member that refuses a part since it wants no more has refused the rest as well.
type seen struct {
	member *Member
	whole  api.Resources
}

// seenBy returns what the agent has noted for the member; nil: the member saw exactly what it was offered.
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

// NoteSeen notes what the member sees of the agent, when it is offered a first part of it in this turn. Offers of the
// agent that it still has from earlier turns are included.
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

// NoteSated extends what the member has seen to everything that it could use of what the agent had when its turn began:
// it was offered all that it wants, so what others took of the agent meanwhile made no difference to it. Offers of the
// agent that it still has from earlier turns are included.
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

// Note updates the mark Noted.
func (a *Agent) Note() { a.Noted = len(a.seen) > 0 || a.Owed != "" }

// forgetSeen makes room by dropping notes for offers that are answered.
func (a *Agent) forgetSeen() {
	if len(a.seen) == cap(a.seen) {
		a.seen = slices.DeleteFunc(a.seen, func(s seen) bool { return s.member.Role == nil || !a.HasOffer(s.member) })
	}
}

// LaunchSeen removes from what the member has seen what was launched.
func (a *Agent) LaunchSeen(m *Member, launched api.Resources) {
	if one := a.seenBy(m); one != nil {
		one.whole = Less(one.whole, launched)
	}
}

// RefusedOf returns what a filter hides when the member refuses an offer, or a part of one. Other open offers of the
// agent that the member has are not refused with it.
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
