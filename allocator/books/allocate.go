package books

import (
	"slices"
	"time"

	"github.com/tenderhq/tender/allocator"
)

// Allocate proposes offers for all that is free, wanted and allowed now.
func (b *Books) Allocate(now time.Time) allocator.Allocation {
	b.now = max(b.now, b.instantOf(now))
	b.filters.expire(b)
	inverse := b.keeps.due(b)
	if b.dirty.clean() && !inverse {
		return allocator.Allocation{}
	}
	b.round++
	b.yield()
	b.settle()
	for again := true; again; again = b.metOnTheWay() || len(b.dirty.agents) > 0 {
		b.serveAll()
		b.serveFew()
		b.servePostponed()
	}
	allocation := allocator.Allocation{Inverse: b.preempt()}
	allocation.Offers, allocation.Spared = b.claims(), b.keeps.claims()
	return allocation
}

// metOnTheWay reports whether an offer has met (part of) a guarantee after somebody got
// less for its sake: then all is looked at once more. Each time something was offered,
// so that this ends.
func (b *Books) metOnTheWay() bool {
	p := &b.promises
	if !p.met || !p.blocked {
		p.met = false
		return false
	}
	p.met, p.blocked = false, false
	b.round++
	b.dirty.everything(b)
	b.settle()
	return true
}

// serveAll looks at the agents that have more to give, for all members.
func (b *Books) serveAll() {
	agents := b.dirty.agents
	for _, number := range b.nearFirst(agents) {
		if a := b.agents[number]; a != nil && a.dirty {
			if a.dirty = false; a.waiting || len(b.resumed) > 0 {
				a.waiting, a.pending = false, a.pending[:0]
			}
			a.looked = b.round
			before := len(b.turn.proposals)
			b.serve(a, b.all, forAll)
			b.askAgain(a, before)
		}
	}
	b.dirty.agents = append(agents[:0], b.dirty.agents[len(agents):]...)
}

// serveFew looks at all other agents, for those members alone that may take more than
// before: of all agents, or of the one whose filter has ended.
func (b *Books) serveFew() {
	members := b.dirty.members
	if len(members) > 0 {
		for _, m := range members {
			m.fresh = false
			if m.role != nil && m.listed && !b.few.has(m) {
				b.few.insert(m)
			}
		}
		b.serveIdle(members)
		b.servePostponed() // before the few are others
		for _, m := range members {
			if m.role != nil {
				b.few.remove(m)
			}
		}
		clear(members)
		b.dirty.members = members[:0]
	}
	for _, number := range b.dirty.pending {
		if a := b.agents[number]; a != nil && a.waiting {
			b.servePending(a)
		}
	}
	b.dirty.pending = b.dirty.pending[:0]
}

func (b *Books) serveIdle(members []*member) {
	for _, m := range members {
		if m.role != nil && m.listed {
			b.serveNear(m)
		}
	}
	for _, a := range b.agents {
		if b.few.size == 0 {
			return
		}
		b.serveIdleAgent(a)
	}
}

// serveNear looks first at the agents that the member prefers.
func (b *Books) serveNear(m *member) {
	if m.demand == nil {
		return
	}
	for _, s := range m.demand.shapes {
		for _, id := range s.spec.Preferred {
			b.serveIdleAgent(b.agentOf(id))
		}
	}
}

func (b *Books) serveIdleAgent(a *agent) {
	if a != nil && a.looked != b.round && a.offerable && !a.open.IsZero() {
		a.looked = b.round
		if a.waiting {
			b.servePending(a)
		} else {
			b.serveOthers(a, forFew)
		}
	}
}

// serveOthers looks at an agent for the few.
func (b *Books) serveOthers(a *agent, at occasion) (isPutBy bool) {
	before := len(b.turn.proposals)
	isPutBy = b.serve(a, b.few, at)
	b.askAgain(a, before)
	return isPutBy
}

// askAgain: where some took part of what is reserved, or the first of the ports of which
// another may have only so many, that one may now be offered what its filter did not hide.
// Then all are asked once more; each time something was offered, so that this ends.
func (b *Books) askAgain(a *agent, before int) {
	if (!a.plain || b.numbered > 0) && len(a.filters) > 0 && len(b.turn.proposals) > before {
		b.dirty.agent(b, a)
	}
}

// servePending looks at an agent for those whose filter has ended as well.
func (b *Books) servePending(a *agent) {
	guests := b.turn.guests[:0]
	for _, number := range a.pending {
		if m := b.members[number]; m != nil && m.listed && !b.few.has(m) {
			b.few.insert(m)
			guests = append(guests, m)
		}
	}
	b.turn.guests = guests
	a.waiting = false
	if !b.serveOthers(a, forPending) {
		a.pending = a.pending[:0]
	}
	for _, m := range guests {
		b.few.remove(m)
	}
}

// Wake is the next moment at which Allocate would propose something by itself.
func (b *Books) Wake() time.Time {
	next, some := b.filters.next(b)
	if due, ok := b.keeps.next(); ok && (!some || due < next) {
		next, some = due, true
	}
	if !some {
		return time.Time{}
	}
	return b.timeOf(next)
}

// nearFirst puts agents that somebody in the order prefers before the others.
func (b *Books) nearFirst(agents []int32) []int32 {
	if len(b.preferred) > 0 {
		slices.SortStableFunc(agents, func(x, y int32) int { return b.distance(x) - b.distance(y) })
	}
	return agents
}

func (b *Books) distance(number int32) int {
	if a := b.agents[number]; a != nil && b.preferred[a.spec.ID] > 0 {
		return 0
	}
	return 1
}
