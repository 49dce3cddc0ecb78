package books

import (
	"slices"

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
	ask    amounts
	simple bool  // plain scalars only: amounts say all
	known  bool  // some agent has, or had, every kind that it asks for
	count  int64 // still wanted: as stated, less what was launched since
	open   int64 // in offers that are not answered
	asked  int64 // to be freed by preemption
	// revocable: some of it is asked for as revocable.
	revocable bool
	gate      *gate
	near      []api.AgentID // preferred, sorted
}

// mould is what all shapes that ask for the same share, so that what does not fit one of
// them is not tried for the others.
type mould struct {
	key    string
	shapes int
	failed uint64 // the turn in which it did not fit what was left of the agent
}

func (b *Books) mouldOf(resources api.Resources) *mould {
	key := resources.String()
	m := b.moulds[key]
	if m == nil {
		m = &mould{key: key}
		b.moulds[key] = m
	}
	m.shapes++
	return m
}

// forgetShape drops what the shape shares with others.
func (b *Books) forgetShape(s *shape, r *role) {
	b.setGate(&s.gate, "", r)
	b.prefer(s.near, -1)
	if s.mould.shapes--; s.mould.shapes == 0 {
		delete(b.moulds, s.mould.key)
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
func (b *Books) SetDemand(id api.FrameworkID, name api.Role, shapes []api.Shape) {
	f := b.frameworks[id]
	if f == nil {
		return
	}
	for _, m := range f.members {
		if m.role.name == name {
			b.setDemand(m, shapes, shapes != nil)
			b.relist(m)
			b.dirty.member(b, m)
		}
	}
}

// setDemand carries over what open offers were sized for, shape by shape.
func (b *Books) setDemand(m *member, specs []api.Shape, stated bool) {
	if m.listed {
		b.floor.depart(b, m)
		defer func() { b.floor.enter(b, m) }()
	}
	old := m.demand
	m.demand = nil
	if stated {
		m.demand = &demand{}
		for _, spec := range specs {
			m.demand.shapes = append(m.demand.shapes, b.shapeOf(m, old, spec))
		}
		b.forgive(m)
	}
	if old != nil {
		for _, s := range old.shapes {
			if m.demand == nil || !slices.Contains(m.demand.shapes, s) {
				b.forgetShape(s, m.role)
			}
		}
	}
	b.keeps.stale = true
}

// shapeOf takes the shape from the old demand if it is there (once), else makes it.
func (b *Books) shapeOf(m *member, old *demand, spec api.Shape) *shape {
	var s *shape
	if old != nil {
		for i, other := range old.shapes {
			if other.spec.Constraint == spec.Constraint && other.spec.Resources.Equal(spec.Resources) && !slices.Contains(m.demand.shapes, other) {
				s = old.shapes[i]
				break
			}
		}
	}
	if s == nil {
		s = &shape{simple: true, mould: b.mouldOf(spec.Resources)}
		for _, item := range spec.Resources.Items() {
			s.simple = s.simple && item.Scalar != 0 && item.Label == api.Label{Name: item.Name}
		}
		b.setGate(&s.gate, spec.Constraint, m.role)
	}
	b.prefer(s.near, -1)
	s.spec, s.count, s.revocable = spec, max(spec.Count, 0), spec.Resources.HasRevocable()
	s.near = slices.Sorted(slices.Values(spec.Preferred))
	b.prefer(s.near, +1)
	return s
}

// askOf is what one of the shape takes, false while no agent has such a kind. Kinds are
// looked up until all are known: a framework's words alone make no new kinds.
func (b *Books) askOf(s *shape) (amounts, bool) {
	if s.known {
		return s.ask, true
	}
	for _, item := range s.spec.Resources.Items() {
		if _, known := b.kinds.numbers[item.Name]; !known {
			return nil, false
		}
	}
	s.ask, s.known = b.kinds.countAll(nil, s.spec.Resources), true
	return s.ask, true
}

// prefer counts by how many shapes each agent is preferred.
func (b *Books) prefer(ids []api.AgentID, n int) {
	for _, id := range ids {
		if b.preferred[id] += n; b.preferred[id] == 0 {
			delete(b.preferred, id)
		}
	}
}

// isNear reports whether the agent is one that the shape prefers.
func (s *shape) isNear(a *agent) bool {
	_, found := slices.BinarySearch(s.near, a.spec.ID)
	return found
}

// launched counts a launch off what is wanted and off what the offer was sized for.
func (b *Books) launched(a *agent, m *member, resources api.Resources, task amounts) {
	if m.demand == nil {
		return
	}
	if resources.HasRevocable() {
		task = b.kinds.countAll(nil, resources)
	}
	for i := range a.plans {
		p := &a.plans[i]
		if p.member == m.number && p.n > 0 && equal(p.shape.ask, task) {
			p.n--
			p.shape.open--
			p.shape.count = max(0, p.shape.count-1)
			b.relist(m)
			return
		}
	}
	for _, s := range m.demand.shapes {
		if ask, known := b.askOf(s); known && s.count > 0 && equal(ask, task) {
			s.count--
			b.relist(m)
			return
		}
	}
}

// equal reports whether both are the same amounts.
func equal(a, b amounts) bool { return a.holds(b) && b.holds(a) }

// unplan takes back what a returned part of the member's offers was sized for.
func (b *Books) unplan(a *agent, m *member, resources api.Resources, back amounts) {
	rest := &b.turn.rest
	rest.set(back)
	if resources.HasRevocable() {
		*rest = b.kinds.countAll(*rest, resources)
	}
	for i := range a.plans {
		p := &a.plans[i]
		if p.member == m.number {
			n := min(p.n, rest.fit(p.shape.ask))
			p.n -= n
			p.shape.open -= n
			rest.subTimes(p.shape.ask, n)
		}
	}
	b.wantsAgain(m)
}

// releasePlan takes back all of it: the offers are answered.
func (b *Books) releasePlan(a *agent, m *member) {
	before := len(a.plans)
	a.plans = slices.DeleteFunc(a.plans, func(p planned) bool {
		if p.member == m.number {
			p.shape.open -= p.n
		}
		return p.member == m.number
	})
	if len(a.plans) < before {
		b.wantsAgain(m)
	}
}

// wantsAgain: what was declined may be offered elsewhere.
func (b *Books) wantsAgain(m *member) {
	if m.demand != nil {
		b.relist(m)
		b.dirty.member(b, m)
		b.keeps.stale = true
	}
}
