package engine

import (
	"slices"

	"github.com/tenderhq/tender/allocator/engine/internal/books"
)

// putBy says for which member, and for which of its shapes, the present agent is put by, if it is.
type putBy struct {
	member *books.Member
	shapes []*books.Shape
}

// serveAgent offers what the agent has, member by member, until nobody takes more or the agent is put by for a member.
func (e *server) serveAgent(a *books.Agent, o *order, at occasion) (isPutBy bool) {
	if !a.Offerable {
		return false
	}
	t := &e.Turn
	t.On, e.occasion = true, at
	e.number++
	t.First = len(t.Proposals)
	t.Began = a.Open
	if t.Resumed = nil; len(e.resumed) > 0 {
		if t.Resumed = e.resumed[a.Number]; t.Resumed != nil {
			t.Began = t.Resumed.Began
		}
	}
	if len(a.Keeps) > 0 {
		e.serveKeeps(a, o)
	}
	e.putBy.member = nil
	for e.putBy.member == nil && !a.Open.IsZero() && o.size > 0 && !e.line.floor.under(a) && (e.serveOwed(a, o) || e.serveOrder(a, o)) {
	}
	t.On = false
	if e.putBy.member == nil {
		return false
	}
	e.postpone(a)
	return true
}

// serveOwed asks the members of roles that lack something of their guarantee.
func (e *server) serveOwed(a *books.Agent, o *order) bool {
	for _, chunk := range e.line.owed.Chunks {
		for _, x := range chunk {
			r := e.Promises.Roles[x.ID]
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

func (e *server) serveOrder(a *books.Agent, o *order) bool {
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

// servePlace asks the members below the place in their order, until one takes something.
func (e *server) servePlace(a *books.Agent, o *order, p *place, owed bool) bool {
	for _, chunk := range p.list.Chunks {
		for i := range chunk {
			id := chunk[i].ID
			if id < 0 {
				if e.serveBelow(a, o, o.parts[^id], owed) {
					return true
				}
				continue
			}
			if e.serveMember(a, e.Members[id], o, owed) {
				return true
			}
		}
	}
	return false
}

// serveMember asks one member. It reports whether the member took something, or the agent is put by for it.
func (e *server) serveMember(a *books.Agent, m *books.Member, o *order, owed bool) bool {
	if m.Passed == e.number {
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
	if !owed && (a.Plain || d.why != isFiltered) { // otherwise another part of it may not be hidden
		m.Passed = e.number
	}
	return false
}

// serveBelow asks the members below the place, but skips a role that has reached its limit.
func (e *server) serveBelow(a *books.Agent, o *order, p *place, owed bool) bool {
	if p.role.Full && a.Plain {
		p.role.Cut = true
		return false
	}
	return e.servePlace(a, o, p, owed)
}

// serveKeeps offers what was kept for a preemption once it is there. When all victims have ended and it is not enough,
// it is no longer kept. Preemptions whose victims have all ended come first, as if nothing were kept for the others,
// because what the others wait for is still to come.
func (e *server) serveKeeps(a *books.Agent, o *order) {
	before := len(a.Keeps)
	defer func() {
		if len(a.Keeps) < before && o != e.line.all {
			e.Dirty.Agent(a) // what is no longer kept is for all members
		}
	}()
	awaiting := slices.DeleteFunc(slices.Clone(a.Keeps), func(k *books.Keep) bool { return !k.Awaits() })
	for _, k := range awaiting {
		e.Keeps.End(k)
	}
	e.serveEach(slices.Clone(a.Keeps), a, o)
	for _, k := range awaiting {
		e.Keeps.Begin(k)
	}
	e.serveEach(awaiting, a, o)
}

func (e *server) serveEach(keeps []*books.Keep, a *books.Agent, o *order) {
	for _, k := range keeps {
		if !k.Useful() || !e.mayRun(k.Of, k.Shape, a) {
			e.Keeps.GiveUp(e.Books, k)
			continue
		}
		if e.OnHold && k.Of.Role.Limited {
			continue
		}
		e.serveKeep(k, o)
	}
}

func (e *server) serveKeep(k *books.Keep, o *order) {
	e.Keeps.End(k) // so that it does not count against itself
	d := e.available(question{member: k.Of, agent: k.Agent})
	e.remember(k.Of, d)
	part, fits := carve(k.Agent, d.offer, k.Shape.Spec.Resources)
	switch {
	case fits && e.Filtered(k.Agent, k.Of, part) != nil:
		e.Spare(k)
	case d.why == granted && fits:
		k.Of.Preempts.Offered = true
		d.plan, d.offer, d.whole = books.Planned{Member: k.Of.Number, Shape: k.Shape, N: 1}, part, part
		e.propose(k.Agent, k.Of, d, o)
		e.Spare(k)
	case k.Awaits():
		e.Keeps.Begin(k)
	}
}
