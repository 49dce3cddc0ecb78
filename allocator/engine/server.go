package engine

import (
	"slices"

	"github.com/tenderhq/tender/allocator/engine/internal/books"
)

// server offers what is free, agent by agent, to the members in their order.
type server struct {
	*decider
	line *line
	// postponed holds what is put by until every agent of the round was looked at; it is empty between rounds.
	postponed []*postponed
	resumed   map[int32]*books.Resumed // by number of the agent: the turns of this round that were interrupted
	// offers counts proposals, so that equals take turns.
	offers   uint64
	occasion occasion // occasion of the present turn
	guests   []*books.Member
}

// metOnTheWay reports whether an offer has met a guarantee, or a part of one, after another member had got less because
// of that guarantee. Then everything is looked at once more. Each repetition requires an offer, so this ends.
func (e *server) metOnTheWay() bool {
	p := &e.Promises
	if !p.Met || !p.Blocked {
		p.Met = false
		return false
	}
	p.Met, p.Blocked = false, false
	e.line.round++
	e.Dirty.Everything(e.Agents)
	e.line.settle()
	return true
}

// serveAll looks at the agents that have more to give, for all members.
func (e *server) serveAll() {
	agents := e.Dirty.Agents
	for _, number := range e.nearFirst(agents) {
		if a := e.Agents[number]; a != nil && a.Dirty {
			if a.Dirty = false; a.Waiting || len(e.resumed) > 0 {
				a.Waiting, a.Pending = false, a.Pending[:0]
			}
			a.Looked = e.line.round
			before := len(e.Turn.Proposals)
			e.serveAgent(a, e.line.all, forAll)
			e.askAgain(a, before)
		}
	}
	e.Dirty.Agents = append(agents[:0], e.Dirty.Agents[len(agents):]...)
}

// serveFew looks at all other agents, for those members only that may take more than before: at all of these agents, or
// at the one whose filter has ended.
func (e *server) serveFew() {
	members := e.Dirty.Members
	if len(members) > 0 {
		for _, m := range members {
			m.Fresh = false
			if m.Role != nil && m.Listed && !e.line.few.has(m) {
				e.line.few.insert(m)
			}
		}
		e.serveIdle(members)
		e.servePostponed() // before the few are other members
		for _, m := range members {
			if m.Role != nil {
				e.line.few.remove(m)
			}
		}
		clear(members)
		e.Dirty.Members = members[:0]
	}
	for _, number := range e.Dirty.Pending {
		if a := e.Agents[number]; a != nil && a.Waiting {
			e.servePending(a)
		}
	}
	e.Dirty.Pending = e.Dirty.Pending[:0]
}

func (e *server) serveIdle(members []*books.Member) {
	for _, m := range members {
		if m.Role != nil && m.Listed {
			e.serveNear(m)
		}
	}
	for _, a := range e.Agents {
		if e.line.few.size == 0 {
			return
		}
		e.serveIdleAgent(a)
	}
}

// serveNear first looks at the agents that the member prefers.
func (e *server) serveNear(m *books.Member) {
	if m.Demand == nil {
		return
	}
	for _, s := range m.Demand.Shapes {
		for _, id := range s.Spec.Preferred {
			e.serveIdleAgent(e.AgentOf(id))
		}
	}
}

func (e *server) serveIdleAgent(a *books.Agent) {
	if a != nil && a.Looked != e.line.round && a.Offerable && !a.Open.IsZero() {
		a.Looked = e.line.round
		if a.Waiting {
			e.servePending(a)
		} else {
			e.serveOthers(a, forFew)
		}
	}
}

// serveOthers looks at an agent for the few members.
func (e *server) serveOthers(a *books.Agent, at occasion) (isPutBy bool) {
	before := len(e.Turn.Proposals)
	isPutBy = e.serveAgent(a, e.line.few, at)
	e.askAgain(a, before)
	return isPutBy
}

// askAgain asks all members once more after somebody took a part of what is reserved, or took ports that come first, of
// which another member may have only a number. Then that other member may be offered something that its filter does not
// hide. Each repetition requires an offer, so this ends.
func (e *server) askAgain(a *books.Agent, before int) {
	if (!a.Plain || e.Numbered > 0) && len(a.Filters) > 0 && len(e.Turn.Proposals) > before {
		e.Dirty.Agent(a)
	}
}

// servePending looks at an agent for the few members and for those whose filter of it has ended.
func (e *server) servePending(a *books.Agent) {
	guests := e.guests[:0]
	for _, number := range a.Pending {
		if m := e.Members[number]; m != nil && m.Listed && !e.line.few.has(m) {
			e.line.few.insert(m)
			guests = append(guests, m)
		}
	}
	e.guests = guests
	a.Waiting = false
	if !e.serveOthers(a, forPending) {
		a.Pending = a.Pending[:0]
	}
	for _, m := range guests {
		e.line.few.remove(m)
	}
}

// nearFirst puts the agents first that some member in the order prefers.
func (e *server) nearFirst(agents []int32) []int32 {
	if len(e.Preferred) > 0 {
		slices.SortStableFunc(agents, func(x, y int32) int { return e.distance(x) - e.distance(y) })
	}
	return agents
}

func (e *server) distance(number int32) int {
	if a := e.Agents[number]; a != nil && e.Preferred[a.Spec.ID] > 0 {
		return 0
	}
	return 1
}
