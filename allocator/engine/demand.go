package engine

import (
	"slices"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// demand is what a member says that it still wants.
type demand struct {
	shapes []*shape
}

// shape is one kind of task that is wanted.
type shape struct {
	spec   api.Shape
	mould  *mould
	ask    Amounts
	simple bool  // plain scalars only: amounts say all
	known  bool  // some agent has, or had, every kind that it asks for
	count  int64 // still wanted, as told last: the core counts launches down
	open   int64 // in offers that are not answered
	asked  int64 // to be freed by preemption
	// revocable: some of it is asked for as revocable.
	revocable bool
	gate      *gate
	near      []api.AgentID // preferred, sorted
	places    []*places     // for each kind of place that it is spread over
	helping   int64         // how many of it were given at once last, see times
	helped    api.Resources // that many of it
}

// mould is what all shapes that ask for the same share, so that what does not fit one of
// them is not tried for the others.
type mould struct {
	key    string
	shapes int
	failed uint64 // the turn in which it did not fit what was left of the agent
}

func (e *wishes) mouldOf(resources api.Resources) *mould {
	key := resources.String()
	m := e.moulds[key]
	if m == nil {
		m = &mould{key: key}
		e.moulds[key] = m
	}
	m.shapes++
	return m
}

// forgetShape drops what the shape shares with others.
func (e *books) forgetShape(s *shape, m *member) {
	e.setGate(&s.gate, "", m.role)
	e.spread(s, m, nil, "")
	e.prefer(s.near, -1)
	if s.mould.shapes--; s.mould.shapes == 0 {
		delete(e.moulds, s.mould.key)
	}
}

// planned is how many of a shape an open offer was sized for.
type planned struct {
	member int32
	shape  *shape
	n      int64
}

// left is how many may be offered.
func (s *shape) left() int64 { return max(0, s.count-s.open) }

// wants reports whether anything may be offered.
func (d *demand) wants() bool {
	return slices.ContainsFunc(d.shapes, func(s *shape) bool { return s.left() > 0 })
}

// SetDemand replaces what the framework wants in the role.
func (e *ledger) SetDemand(id api.FrameworkID, name api.Role, shapes []api.Shape) {
	f := e.frameworks[id]
	if f == nil {
		return
	}
	for _, m := range f.members {
		if m.role.name == name {
			if m.wantsMore(shapes) {
				e.filters.forget(e.books, m)
			}
			more := e.setDemand(m, shapes, shapes != nil)
			e.relist(m)
			if more {
				e.dirty.member(m)
			}
		}
	}
}

// wantsMore reports whether the demand grows by what is stated now; nil = it states none.
func (m *member) wantsMore(specs []api.Shape) bool {
	if m.demand == nil || specs == nil {
		return allocator.DemandGrows(m.left(), specs)
	}
	return !m.wantsNoMore(specs) && allocator.DemandGrows(m.left(), specs)
}

// left is what the member still wants; nil when it states no demand.
func (m *member) left() []api.Shape {
	if m.demand == nil {
		return nil
	}
	shapes := make([]api.Shape, len(m.demand.shapes))
	for i, s := range m.demand.shapes {
		shapes[i] = s.spec
		shapes[i].Count = s.count
	}
	return shapes
}

// wantsNoMore sees the common case at once: shape by shape the demand is no larger than before.
func (m *member) wantsNoMore(specs []api.Shape) bool {
	if len(specs) > len(m.demand.shapes) {
		return false
	}
	for i, spec := range specs {
		s := m.demand.shapes[i]
		if !s.is(spec) || spec.Count > s.count || s.spec.OnlyPreferred && !spec.OnlyPreferred {
			return false
		}
	}
	return true
}

// is reports whether both ask for the same on the same agents, for the same group.
func (s *shape) is(spec api.Shape) bool {
	return s.spec.Constraint == spec.Constraint && s.spec.Group == spec.Group && s.spec.Resources.Equal(spec.Resources)
}

// setDemand carries over what open offers were sized for, shape by shape. more: something may be offered now that
// could not be before; where all that has changed are lower counts, no agent has to be looked at again.
func (e *ledger) setDemand(m *member, specs []api.Shape, stated bool) (more bool) {
	if m.listed {
		e.floor.depart(e.line, m)
		defer func() { e.floor.enter(e.books, m) }()
	}
	old := m.demand
	m.demand = nil
	more = stated != (old != nil)
	if stated {
		m.demand = &demand{shapes: make([]*shape, 0, len(specs))}
		rest := restOf(old)
		for _, spec := range specs {
			s := rest.take(spec)
			if s == nil {
				s = e.newShape(m, spec)
			}
			more = e.respecify(s, m, spec) || more
			m.demand.shapes = append(m.demand.shapes, s)
		}
		rest.each(func(s *shape) { e.forgetShape(s, m) })
		e.forgive(m)
	} else {
		restOf(old).each(func(s *shape) { e.forgetShape(s, m) })
	}
	e.keeps.stale = true
	return more
}

// rest is what of an old demand has not been found in the new one. Most often that is the same in the same order,
// with some shapes fewer; so the search begins where the last one ended.
type rest struct {
	shapes []*shape // nil where one was taken
	next   int
}

func restOf(old *demand) *rest {
	if old == nil {
		return &rest{}
	}
	return &rest{shapes: old.shapes}
}

// take finds the shape that asks for the same for the same group under the same constraint.
func (r *rest) take(spec api.Shape) *shape {
	for i := range r.shapes {
		at := (r.next + i) % len(r.shapes)
		if s := r.shapes[at]; s != nil && s.is(spec) {
			r.shapes[at], r.next = nil, at+1
			return s
		}
	}
	return nil
}

func (r *rest) each(do func(*shape)) {
	for _, s := range r.shapes {
		if s != nil {
			do(s)
		}
	}
}

func (e *books) newShape(m *member, spec api.Shape) *shape {
	s := &shape{simple: true, mould: e.mouldOf(spec.Resources), revocable: spec.Resources.HasRevocable()}
	for _, item := range spec.Resources.Items() {
		s.simple = s.simple && item.Scalar != 0 && item.Label == api.Label{Name: item.Name}
	}
	e.setGate(&s.gate, spec.Constraint, m.role)
	return s
}

// respecify takes over what may differ between two shapes that ask for the same, and reports whether something
// may be offered now that could not be before.
func (e *books) respecify(s *shape, m *member, spec api.Shape) (more bool) {
	more = spec.Count > s.count || spec.OnlyPreferred != s.spec.OnlyPreferred
	if !slices.Equal(spec.Preferred, s.spec.Preferred) {
		more = true
		e.prefer(s.near, -1)
		s.near = slices.Sorted(slices.Values(spec.Preferred))
		e.prefer(s.near, +1)
	}
	if !slices.Equal(spec.Spread, s.spec.Spread) {
		more = true
		e.spread(s, m, spec.Spread, spec.Group)
	}
	s.spec, s.count = spec, max(spec.Count, 0)
	return more
}

// askOf is what one of the shape takes, false while no agent has such a kind. Kinds are
// looked up until all are known: a framework's words alone make no new kinds.
func (e *books) askOf(s *shape) (Amounts, bool) {
	if s.known {
		return s.ask, true
	}
	for _, item := range s.spec.Resources.Items() {
		if _, known := e.kinds.numbers[item.Name]; !known {
			return nil, false
		}
	}
	s.ask, s.known = e.kinds.countAll(nil, s.spec.Resources), true
	return s.ask, true
}

// prefer counts by how many shapes each agent is preferred.
func (e *wishes) prefer(ids []api.AgentID, n int) {
	for _, id := range ids {
		if e.preferred[id] += n; e.preferred[id] == 0 {
			delete(e.preferred, id)
		}
	}
}

// isNear reports whether the agent is one that the shape prefers.
func (s *shape) isNear(a *agent) bool {
	_, found := slices.BinarySearch(s.near, a.spec.ID)
	return found
}

// launched counts a launch off what the offer was sized for. What is wanted the core counts, and tells.
func (e *ledger) launched(a *agent, m *member, resources api.Resources, task Amounts) {
	if m.demand == nil {
		return
	}
	if resources.HasRevocable() {
		task = e.kinds.countAll(nil, resources)
	}
	for i := range a.plans {
		p := &a.plans[i]
		if p.member == m.number && p.n > 0 && equal(p.shape.ask, task) {
			none := p.shape.left() == 0
			p.n--
			p.shape.open--
			e.countPlaces(a, m, p.shape.spec.Group, -1)
			if none {
				e.wantsAgain(m) // unless the core says in a moment that less is wanted
			}
			return
		}
	}
}

// equal reports whether both are the same amounts.
func equal(a, b Amounts) bool { return a.holds(b) && b.holds(a) }

// unplan takes back what a returned part of the member's offers was sized for.
func (e *ledger) unplan(a *agent, m *member, resources api.Resources, back Amounts) {
	rest := &e.turn.rest
	rest.set(back)
	if resources.HasRevocable() {
		*rest = e.kinds.countAll(*rest, resources)
	}
	for i := range a.plans {
		p := &a.plans[i]
		if p.member == m.number {
			n := min(p.n, rest.fit(p.shape.ask))
			p.n -= n
			p.shape.open -= n
			e.countPlaces(a, m, p.shape.spec.Group, -n)
			rest.subTimes(p.shape.ask, n)
		}
	}
	e.wantsAgain(m)
}

// releasePlan takes back all of it: the offers are answered.
func (e *ledger) releasePlan(a *agent, m *member) {
	before := len(a.plans)
	a.plans = slices.DeleteFunc(a.plans, func(p planned) bool {
		if p.member == m.number {
			p.shape.open -= p.n
			e.countPlaces(a, m, p.shape.spec.Group, -p.n)
		}
		return p.member == m.number
	})
	if len(a.plans) < before {
		e.wantsAgain(m)
	}
}

// wantsAgain: what was declined may be offered elsewhere.
func (e *ledger) wantsAgain(m *member) {
	if m.demand != nil {
		e.relist(m)
		e.dirty.member(m)
		e.keeps.stale = true
	}
}
