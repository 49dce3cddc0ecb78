package engine

import (
	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// turn is the state of looking at one agent, and memory that is used again.
type turn struct {
	on        bool
	resumed   *resumed          // the agent at hand was put by before
	began     api.Resources     // what the agent had open when its turn began
	proposals []allocator.Claim // of this round
	members   []int32           // to whom
	first     int               // where the agent's own begin
	scratch
}

// scratch is memory for sums that are looked at and forgotten.
type scratch struct{ own, change, offer, rest, relief, asked, floor, sum Amounts }

// putBy is for whom an agent is put by, if it is: a member, and which of its shapes.
type putBy struct {
	member *member
	shapes []*shape
}

// resumed is the turn of an agent that was put by in the middle of it.
type resumed struct {
	began     api.Resources
	proposals map[int32]int // by number of member
}

// serve offers what the agent has, member by member, until nobody takes more, or it is put by for somebody.
func (e *server) serve(a *agent, o *order, at occasion) (isPutBy bool) {
	if !a.offerable {
		return false
	}
	t := &e.turn
	t.on, e.occasion = true, at
	e.number++
	t.first = len(t.proposals)
	t.began = a.open
	if t.resumed = nil; len(e.resumed) > 0 {
		if t.resumed = e.resumed[a.number]; t.resumed != nil {
			t.began = t.resumed.began
		}
	}
	if len(a.keeps) > 0 {
		e.serveKeeps(a, o)
	}
	e.putBy.member = nil
	for e.putBy.member == nil && !a.open.IsZero() && o.size > 0 && !e.line.floor.under(a) && (e.serveOwed(a, o) || e.serveOrder(a, o)) {
	}
	t.on = false
	if e.putBy.member == nil {
		return false
	}
	e.postpone(a)
	return true
}

// serveOwed asks the members of roles that lack something of their guarantee.
func (e *server) serveOwed(a *agent, o *order) bool {
	for _, chunk := range e.line.owed.chunks {
		for _, x := range chunk {
			r := e.promises.roles[x.id]
			if o.flat != nil && e.serveFlat(a, o, r) {
				return true
			}
			for _, l := range o.lanes {
				for _, p := range *o.placesOf(r) {
					if p.lane == l && e.servePlace(a, o, p, true) {
						return true
					}
				}
			}
		}
	}
	return false
}

func (e *server) serveOrder(a *agent, o *order) bool {
	if o.flat != nil {
		return e.serveFlat(a, o, nil)
	}
	for _, l := range o.lanes {
		if e.servePlace(a, o, l.root, false) {
			return true
		}
	}
	return false
}

// servePlace asks the members below the place in order, until one takes something.
func (e *server) servePlace(a *agent, o *order, p *place, owed bool) bool {
	for _, chunk := range p.list.chunks {
		for i := range chunk {
			id := chunk[i].id
			if id < 0 {
				if e.serveBelow(a, o, o.parts[^id], owed) {
					return true
				}
				continue
			}
			if e.serveMember(a, e.members[id], o, owed) {
				return true
			}
		}
	}
	return false
}

// serveMember asks one member, and reports whether it took something or the agent is put by for it.
func (e *server) serveMember(a *agent, m *member, o *order, owed bool) bool {
	if m.passed == e.number {
		return false
	}
	d := e.decide(question{member: m, agent: a, owed: owed})
	e.remember(m, d)
	switch d.why {
	case granted:
		e.propose(a, m, d, o)
		return true
	case isPutBy:
		return true
	}
	if !owed && (a.plain || d.why != isFiltered) { // else another cut may not be hidden
		m.passed = e.number
	}
	return false
}

// serveBelow passes by a role that is at its limit, with all below it.
func (e *server) serveBelow(a *agent, o *order, p *place, owed bool) bool {
	if p.role.full && a.plain {
		p.role.cut = true
		return false
	}
	return e.servePlace(a, o, p, owed)
}
