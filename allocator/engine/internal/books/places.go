package books

import (
	"slices"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// tasksOf is how many tasks of a group a member has on one agent.
type tasksOf struct {
	member int32
	group  string
	n      int64
}

// places counts what a member has of a group in each place of one kind: tasks, and what open offers were sized for.
//
// Holds: it exists as long as a shape that the member wants names this kind of place.
type places struct {
	by     api.Place
	group  string
	Counts map[string]int64
	users  int  // number of shapes that use it
	full   bool // somebody was refused a place that was full; it is looked at again when a place has less
}

// Of returns the agent's place, and the count there.
func (p *places) Of(a *Agent) (place string, count int64) {
	place = p.by.Of(a.Spec.ID, a.Spec.Region, a.Spec.Zone, a.Spec.Attributes)
	return place, p.Counts[place]
}

// placesOf returns the member's counts; if there are none, it computes them.
func (b *Books) placesOf(m *Member, by api.Place, group string) *places {
	for _, p := range m.places {
		if p.by == by && p.group == group {
			p.users++
			return p
		}
	}
	p := &places{by: by, group: group, users: 1}
	m.places = append(m.places, p)
	b.recount(m, p)
	return p
}

// leavePlaces ends the use of the counts by one shape.
func (b *Books) leavePlaces(m *Member, p *places) {
	if p.users--; p.users == 0 {
		m.places = slices.DeleteFunc(m.places, func(other *places) bool { return other == p })
	}
}

// recount computes all counts anew.
func (b *Books) recount(m *Member, p *places) {
	p.Counts = make(map[string]int64)
	for _, a := range b.Agents {
		if a == nil {
			continue
		}
		for i := range a.counts {
			if one := &a.counts[i]; one.member == m.Number && one.group == p.group {
				place, _ := p.Of(a)
				p.Counts[place] += one.n
			}
		}
		for i := range a.Plans {
			if plan := &a.Plans[i]; plan.Member == m.Number && plan.Shape.Spec.Group == p.group {
				place, _ := p.Of(a)
				p.Counts[place] += plan.N
			}
		}
	}
}

// RecountAll computes all counts anew, after an agent has moved to another place.
func (b *Books) RecountAll() {
	for _, m := range b.Members {
		if m == nil {
			continue
		}
		for _, p := range m.places {
			b.recount(m, p)
		}
	}
}

// CountTask adds (n = 1) or removes (n = -1) one of the member's tasks.
func (b *Books) CountTask(a *Agent, m *Member, claim allocator.Claim, n int64) {
	if claim.Task == "" {
		return
	}
	at := slices.IndexFunc(a.counts, func(one tasksOf) bool { return one.member == m.Number && one.group == claim.Group })
	switch {
	case at < 0 && n < 0:
		return
	case at < 0:
		a.counts = append(a.counts, tasksOf{m.Number, claim.Group, n})
	default:
		if a.counts[at].n += n; a.counts[at].n == 0 {
			a.counts = slices.Delete(a.counts, at, at+1)
		}
	}
	b.CountPlaces(a, m, claim.Group, n)
}

// DropCounts forgets the counts of the member's tasks on the agent.
func (b *Books) DropCounts(a *Agent, m *Member) {
	a.counts = slices.DeleteFunc(a.counts, func(one tasksOf) bool {
		if one.member == m.Number {
			b.CountPlaces(a, m, one.group, -one.n)
		}
		return one.member == m.Number
	})
}

// CountPlaces adds n to the member's counts of the group in the agent's places.
func (b *Books) CountPlaces(a *Agent, m *Member, group string, n int64) {
	for _, p := range m.places {
		if p.group != group || n == 0 {
			continue
		}
		place, _ := p.Of(a)
		if p.Counts[place] += n; p.Counts[place] <= 0 {
			delete(p.Counts, place)
		}
		if n < 0 && p.full {
			p.full = false
			b.Dirty.Member(m)
		}
	}
}

// spread replaces the counts that the shape uses.
func (b *Books) spread(s *Shape, m *Member, wanted []api.Spread, group string) {
	before := s.Places
	s.Places = nil
	for _, one := range wanted {
		s.Places = append(s.Places, b.placesOf(m, one.By, group))
	}
	for _, p := range before {
		b.leavePlaces(m, p)
	}
}

// RoomInPlaces returns how many more of the shape the agent's places may have; a very large number if nothing bounds
// them.
func (s *Shape) RoomInPlaces(a *Agent) int64 {
	const many = 1 << 40
	room := int64(many)
	for i, one := range s.Spec.Spread {
		if one.Most > 0 {
			_, count := s.Places[i].Of(a)
			room = min(room, max(0, one.Most-count))
		}
	}
	return room
}

// FullPlace returns the first of the agent's places that has as many of the shape as are wanted in one.
func (s *Shape) FullPlace(a *Agent) (one api.Spread, place string, full bool) {
	for i, one := range s.Spec.Spread {
		if place, count := s.Places[i].Of(a); one.Most > 0 && count >= one.Most {
			return one, place, true
		}
	}
	return api.Spread{}, "", false
}

// IsPlaceFull reports whether one of the agent's places has as many of the shape as are wanted in one.
func (s *Shape) IsPlaceFull(a *Agent) bool {
	if len(s.Places) == 0 {
		return false
	}
	_, _, full := s.FullPlace(a)
	return full
}

// NoteFull has the member looked at again when one of the shape's places has less.
func (s *Shape) NoteFull() {
	for _, p := range s.Places {
		p.full = true
	}
}

// Rest returns the counts of the shape in all of the agent's places but the first.
func (s *Shape) Rest(a *Agent) (counts []int64) {
	for _, p := range s.Places[1:] {
		_, count := p.Of(a)
		counts = append(counts, count)
	}
	return counts
}
