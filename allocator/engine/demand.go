package engine

import (
	"slices"

	"github.com/tenderhq/tender/allocator/engine/internal/books"
	"github.com/tenderhq/tender/api"
)

// stateDemand replaces what the framework wants in the role.
func (e *ledger) stateDemand(id api.FrameworkID, name api.Role, shapes []api.Shape) {
	f := e.Frameworks[id]
	if f == nil {
		return
	}
	for _, m := range f.Members {
		if m.Role.Name == name {
			if m.WantsMore(shapes) {
				e.Filters.Forget(e.Books, m)
			}
			more := e.setDemand(m, shapes, shapes != nil)
			e.relist(m)
			if more {
				e.Dirty.Member(m)
			}
		}
	}
}

// setDemand carries over what open offers were sized for, shape by shape. more: something may be offered now that
// could not be before; where all that has changed are lower counts, no agent has to be looked at again.
func (e *ledger) setDemand(m *books.Member, specs []api.Shape, stated bool) (more bool) {
	if m.Listed {
		e.floor.depart(e.line, m)
		defer func() { e.floor.enter(e.Books, m) }()
	}
	old := m.Demand
	m.Demand = nil
	more = stated != (old != nil)
	if stated {
		m.Demand = &books.Demand{Shapes: make([]*books.Shape, 0, len(specs))}
		rest := restOf(old)
		for _, spec := range specs {
			s := rest.take(spec)
			if s == nil {
				s = e.NewShape(m, spec)
			}
			more = e.Respecify(s, m, spec) || more
			m.Demand.Shapes = append(m.Demand.Shapes, s)
		}
		rest.each(func(s *books.Shape) { e.ForgetShape(s, m) })
		e.forgive(m)
	} else {
		restOf(old).each(func(s *books.Shape) { e.ForgetShape(s, m) })
	}
	e.Keeps.Stale = true
	return more
}

// rest is what of an old demand has not been found in the new one. Most often that is the same in the same order,
// with some shapes fewer; so the search begins where the last one ended.
type rest struct {
	shapes []*books.Shape // nil where one was taken
	next   int
}

func restOf(old *books.Demand) *rest {
	if old == nil {
		return &rest{}
	}
	return &rest{shapes: old.Shapes}
}

// take finds the shape that asks for the same for the same group under the same constraint.
func (r *rest) take(spec api.Shape) *books.Shape {
	for i := range r.shapes {
		at := (r.next + i) % len(r.shapes)
		if s := r.shapes[at]; s != nil && s.Is(spec) {
			r.shapes[at], r.next = nil, at+1
			return s
		}
	}
	return nil
}

func (r *rest) each(do func(*books.Shape)) {
	for _, s := range r.shapes {
		if s != nil {
			do(s)
		}
	}
}

// launched counts a launch off what the offer was sized for. What is still wanted is counted by the core, which tells
// it.
func (e *ledger) launched(a *books.Agent, m *books.Member, resources api.Resources, task books.Amounts) {
	if m.Demand == nil {
		return
	}
	if resources.HasRevocable() {
		task = e.Kinds.CountAll(nil, resources)
	}
	for i := range a.Plans {
		p := &a.Plans[i]
		if p.Member == m.Number && p.N > 0 && equal(p.Shape.Ask, task) {
			none := p.Shape.Left() == 0
			p.N--
			p.Shape.Open--
			e.CountPlaces(a, m, p.Shape.Spec.Group, -1)
			if none {
				e.wantsAgain(m) // unless the core says in a moment that less is wanted
			}
			return
		}
	}
}

// equal reports whether both are the same amounts.
func equal(a, b books.Amounts) bool { return a.Holds(b) && b.Holds(a) }

// unplan takes back what an offer, part of which has come back, was sized for.
func (e *ledger) unplan(a *books.Agent, m *books.Member, resources api.Resources, back books.Amounts) {
	rest := &e.Turn.Rest
	rest.Set(back)
	if resources.HasRevocable() {
		*rest = e.Kinds.CountAll(*rest, resources)
	}
	for i := range a.Plans {
		p := &a.Plans[i]
		if p.Member == m.Number {
			n := min(p.N, rest.Fit(p.Shape.Ask))
			p.N -= n
			p.Shape.Open -= n
			e.CountPlaces(a, m, p.Shape.Spec.Group, -n)
			rest.SubTimes(p.Shape.Ask, n)
		}
	}
	e.wantsAgain(m)
}

// releasePlan takes back all of it: the offers are answered.
func (e *ledger) releasePlan(a *books.Agent, m *books.Member) {
	before := len(a.Plans)
	a.Plans = slices.DeleteFunc(a.Plans, func(p books.Planned) bool {
		if p.Member == m.Number {
			p.Shape.Open -= p.N
			e.CountPlaces(a, m, p.Shape.Spec.Group, -p.N)
		}
		return p.Member == m.Number
	})
	if len(a.Plans) < before {
		e.wantsAgain(m)
	}
}

// wantsAgain has agents looked at again for the member: what it declined may be offered elsewhere.
func (e *ledger) wantsAgain(m *books.Member) {
	if m.Demand != nil {
		e.relist(m)
		e.Dirty.Member(m)
		e.Keeps.Stale = true
	}
}
