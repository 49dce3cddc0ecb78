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

// setDemand replaces the demand, and carries over, shape by shape, what open offers were sized for. more: something may
// be offered now that could not be offered before. If only counts have become lower, no agent has to be looked at
// again.
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

// rest holds the shapes of an old demand that were not found in the new one yet. Most often the new demand has the same
// shapes in the same order, without some of them; so each search begins where the last one ended.
type rest struct {
	shapes []*books.Shape // nil where a shape was taken
	next   int
}

func restOf(old *books.Demand) *rest {
	if old == nil {
		return &rest{}
	}
	return &rest{shapes: old.Shapes}
}

// take removes and returns the shape that asks for the same for the same group, with the same constraint.
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

// launched takes a launch off what the offer was sized for. What is still wanted is counted by the core, which then
// tells it.
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
				e.wantsAgain(m) // unless the core tells in a moment that less is wanted
			}
			return
		}
	}
}

// equal reports whether both amounts are the same.
func equal(a, b books.Amounts) bool { return a.Holds(b) && b.Holds(a) }

// unplan takes back what an offer was sized for, part of which has come back.
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

// releasePlan takes back everything that the member's offers of the agent were sized for, because they are answered.
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

// wantsAgain has agents looked at again for the member, because what it has declined may be offered to it elsewhere.
func (e *ledger) wantsAgain(m *books.Member) {
	if m.Demand != nil {
		e.relist(m)
		e.Dirty.Member(m)
		e.Keeps.Stale = true
	}
}
