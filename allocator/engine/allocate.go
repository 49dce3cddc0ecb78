package engine

import (
	"slices"
)

// server offers what is free, agent by agent, to who is next.
type server struct {
	*decider
	line *line
	// postponed is put by until every agent of the round was looked at; empty between rounds.
	postponed []*postponed
	resumed   map[int32]*resumed // by number of agent: those of this round that were put by
	// offers counts proposals, so that equals take turns.
	offers   uint64
	occasion occasion // of the turn at hand
	guests   []*member
}

// metOnTheWay reports whether an offer has met (part of) a guarantee after somebody got
// less for its sake: then all is looked at once more. Each time something was offered,
// so that this ends.
func (e *server) metOnTheWay() bool {
	p := &e.promises
	if !p.met || !p.blocked {
		p.met = false
		return false
	}
	p.met, p.blocked = false, false
	e.line.round++
	e.dirty.everything(e.agents)
	e.line.settle()
	return true
}

// serveAll looks at the agents that have more to give, for all members.
func (e *server) serveAll() {
	agents := e.dirty.agents
	for _, number := range e.nearFirst(agents) {
		if a := e.agents[number]; a != nil && a.dirty {
			if a.dirty = false; a.waiting || len(e.resumed) > 0 {
				a.waiting, a.pending = false, a.pending[:0]
			}
			a.looked = e.line.round
			before := len(e.turn.proposals)
			e.serve(a, e.line.all, forAll)
			e.askAgain(a, before)
		}
	}
	e.dirty.agents = append(agents[:0], e.dirty.agents[len(agents):]...)
}

// serveFew looks at all other agents, for those members alone that may take more than
// before: of all agents, or of the one whose filter has ended.
func (e *server) serveFew() {
	members := e.dirty.members
	if len(members) > 0 {
		for _, m := range members {
			m.fresh = false
			if m.role != nil && m.listed && !e.line.few.has(m) {
				e.line.few.insert(m)
			}
		}
		e.serveIdle(members)
		e.servePostponed() // before the few are others
		for _, m := range members {
			if m.role != nil {
				e.line.few.remove(m)
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

func (e *server) serveIdle(members []*member) {
	for _, m := range members {
		if m.role != nil && m.listed {
			e.serveNear(m)
		}
	}
	for _, a := range e.agents {
		if e.line.few.size == 0 {
			return
		}
		e.serveIdleAgent(a)
	}
}

// serveNear looks first at the agents that the member prefers.
func (e *server) serveNear(m *member) {
	if m.demand == nil {
		return
	}
	for _, s := range m.demand.shapes {
		for _, id := range s.spec.Preferred {
			e.serveIdleAgent(e.agentOf(id))
		}
	}
}

func (e *server) serveIdleAgent(a *agent) {
	if a != nil && a.looked != e.line.round && a.offerable && !a.open.IsZero() {
		a.looked = e.line.round
		if a.waiting {
			e.servePending(a)
		} else {
			e.serveOthers(a, forFew)
		}
	}
}

// serveOthers looks at an agent for the few.
func (e *server) serveOthers(a *agent, at occasion) (isPutBy bool) {
	before := len(e.turn.proposals)
	isPutBy = e.serve(a, e.line.few, at)
	e.askAgain(a, before)
	return isPutBy
}

// askAgain: where some took part of what is reserved, or the first of the ports of which
// another may have only so many, that one may now be offered what its filter did not hide.
// Then all are asked once more; each time something was offered, so that this ends.
func (e *server) askAgain(a *agent, before int) {
	if (!a.plain || e.numbered > 0) && len(a.filters) > 0 && len(e.turn.proposals) > before {
		e.dirty.agent(a)
	}
}

// servePending looks at an agent for those whose filter has ended as well.
func (e *server) servePending(a *agent) {
	guests := e.guests[:0]
	for _, number := range a.pending {
		if m := e.members[number]; m != nil && m.listed && !e.line.few.has(m) {
			e.line.few.insert(m)
			guests = append(guests, m)
		}
	}
	e.guests = guests
	a.waiting = false
	if !e.serveOthers(a, forPending) {
		a.pending = a.pending[:0]
	}
	for _, m := range guests {
		e.line.few.remove(m)
	}
}

// nearFirst puts agents that somebody in the order prefers before the others.
func (e *server) nearFirst(agents []int32) []int32 {
	if len(e.preferred) > 0 {
		slices.SortStableFunc(agents, func(x, y int32) int { return e.distance(x) - e.distance(y) })
	}
	return agents
}

func (e *server) distance(number int32) int {
	if a := e.agents[number]; a != nil && e.preferred[a.spec.ID] > 0 {
		return 0
	}
	return 1
}
