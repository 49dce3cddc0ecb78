package engine

import (
	"slices"
	"time"

	"github.com/tenderhq/tender/allocator"
)

// Allocate proposes offers for all that is free, wanted and allowed now.
func (e *Engine) Allocate(now time.Time) allocator.Allocation {
	e.now = max(e.now, e.instantOf(now))
	e.filters.expire(e)
	inverse := e.keeps.due(e)
	if e.dirty.clean() && !inverse {
		return allocator.Allocation{Inverse: e.askBackKept()}
	}
	e.round++
	e.stepBack()
	e.settle()
	for again := true; again; again = e.metOnTheWay() || len(e.dirty.agents) > 0 {
		e.serveAll()
		e.serveFew()
		e.servePostponed()
	}
	allocation := allocator.Allocation{Inverse: append(e.askBackKept(), e.preempt()...)}
	allocation.Offers, allocation.Spared = e.claims(), e.keeps.claims()
	return allocation
}

// metOnTheWay reports whether an offer has met (part of) a guarantee after somebody got
// less for its sake: then all is looked at once more. Each time something was offered,
// so that this ends.
func (e *Engine) metOnTheWay() bool {
	p := &e.promises
	if !p.met || !p.blocked {
		p.met = false
		return false
	}
	p.met, p.blocked = false, false
	e.round++
	e.dirty.everything(e)
	e.settle()
	return true
}

// serveAll looks at the agents that have more to give, for all members.
func (e *Engine) serveAll() {
	agents := e.dirty.agents
	for _, number := range e.nearFirst(agents) {
		if a := e.agents[number]; a != nil && a.dirty {
			if a.dirty = false; a.waiting || len(e.resumed) > 0 {
				a.waiting, a.pending = false, a.pending[:0]
			}
			a.looked = e.round
			before := len(e.turn.proposals)
			e.serve(a, e.all, forAll)
			e.askAgain(a, before)
		}
	}
	e.dirty.agents = append(agents[:0], e.dirty.agents[len(agents):]...)
}

// serveFew looks at all other agents, for those members alone that may take more than
// before: of all agents, or of the one whose filter has ended.
func (e *Engine) serveFew() {
	members := e.dirty.members
	if len(members) > 0 {
		for _, m := range members {
			m.fresh = false
			if m.role != nil && m.listed && !e.few.has(m) {
				e.few.insert(m)
			}
		}
		e.serveIdle(members)
		e.servePostponed() // before the few are others
		for _, m := range members {
			if m.role != nil {
				e.few.remove(m)
			}
		}
		clear(members)
		e.dirty.members = members[:0]
	}
	for _, number := range e.dirty.pending {
		if a := e.agents[number]; a != nil && a.waiting {
			e.servePending(a)
		}
	}
	e.dirty.pending = e.dirty.pending[:0]
}

func (e *Engine) serveIdle(members []*member) {
	for _, m := range members {
		if m.role != nil && m.listed {
			e.serveNear(m)
		}
	}
	for _, a := range e.agents {
		if e.few.size == 0 {
			return
		}
		e.serveIdleAgent(a)
	}
}

// serveNear looks first at the agents that the member prefers.
func (e *Engine) serveNear(m *member) {
	if m.demand == nil {
		return
	}
	for _, s := range m.demand.shapes {
		for _, id := range s.spec.Preferred {
			e.serveIdleAgent(e.agentOf(id))
		}
	}
}

func (e *Engine) serveIdleAgent(a *agent) {
	if a != nil && a.looked != e.round && a.offerable && !a.open.IsZero() {
		a.looked = e.round
		if a.waiting {
			e.servePending(a)
		} else {
			e.serveOthers(a, forFew)
		}
	}
}

// serveOthers looks at an agent for the few.
func (e *Engine) serveOthers(a *agent, at occasion) (isPutBy bool) {
	before := len(e.turn.proposals)
	isPutBy = e.serve(a, e.few, at)
	e.askAgain(a, before)
	return isPutBy
}

// askAgain: where some took part of what is reserved, or the first of the ports of which
// another may have only so many, that one may now be offered what its filter did not hide.
// Then all are asked once more; each time something was offered, so that this ends.
func (e *Engine) askAgain(a *agent, before int) {
	if (!a.plain || e.numbered > 0) && len(a.filters) > 0 && len(e.turn.proposals) > before {
		e.dirty.agent(e, a)
	}
}

// servePending looks at an agent for those whose filter has ended as well.
func (e *Engine) servePending(a *agent) {
	guests := e.turn.guests[:0]
	for _, number := range a.pending {
		if m := e.members[number]; m != nil && m.listed && !e.few.has(m) {
			e.few.insert(m)
			guests = append(guests, m)
		}
	}
	e.turn.guests = guests
	a.waiting = false
	if !e.serveOthers(a, forPending) {
		a.pending = a.pending[:0]
	}
	for _, m := range guests {
		e.few.remove(m)
	}
}

// Wake is the next moment at which Allocate would propose something by itself.
func (e *Engine) Wake() time.Time {
	next, some := e.filters.next(e)
	if due, ok := e.keeps.next(); ok && (!some || due < next) {
		next, some = due, true
	}
	if due := e.keptOffers.wake(); due != 0 && (!some || due < next) {
		next, some = due, true
	}
	if !some {
		return time.Time{}
	}
	return e.timeOf(next)
}

// nearFirst puts agents that somebody in the order prefers before the others.
func (e *Engine) nearFirst(agents []int32) []int32 {
	if len(e.preferred) > 0 {
		slices.SortStableFunc(agents, func(x, y int32) int { return e.distance(x) - e.distance(y) })
	}
	return agents
}

func (e *Engine) distance(number int32) int {
	if a := e.agents[number]; a != nil && e.preferred[a.spec.ID] > 0 {
		return 0
	}
	return 1
}
