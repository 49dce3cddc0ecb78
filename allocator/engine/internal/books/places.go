package books

import (
	"slices"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// tasksOf is how many tasks of a group a member has on an agent.
type tasksOf struct {
	member int32
	group  string
	n      int64
}

// places counts what a member has of a group in each place of one kind: tasks, and what open offers were sized for.
// Holds: a member has one as long as a shape that it wants names the kind.
type places struct {
	by     api.Place
	group  string
	Counts map[string]int64
	users  int  // shapes
	full   bool // somebody was refused a place because it held the most; looked at again when one has less
}

// Of is the agent's place, and what is there.
func (p *places) Of(a *Agent) (place string, count int64) {
	place = p.by.Of(a.Spec.ID, a.Spec.Region, a.Spec.Zone, a.Spec.Attributes)
	return place, p.Counts[place]
}

// placesOf finds the member's counts, or makes them of what it has.
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

// RecountAll follows an agent that has moved to another place.
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

// CountTask counts one of the member's tasks (n = 1), or no longer (n = -1).
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

// DropCounts forgets the member's tasks on the agent.
func (b *Books) DropCounts(a *Agent, m *Member) {
	a.counts = slices.DeleteFunc(a.counts, func(one tasksOf) bool {
		if one.member == m.Number {
			b.CountPlaces(a, m, one.group, -one.n)
		}
		return one.member == m.Number
	})
}

// CountPlaces adds to what the member has of the group where the agent is.
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

// spread puts the shape's places in place of those it had.
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

// RoomInPlaces is how many more of the shape the agent's places may have; many if nothing bounds them.
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

// FullPlace is the first of the agent's places that holds as many of the shape as is wanted in one.
func (s *Shape) FullPlace(a *Agent) (one api.Spread, place string, full bool) {
	for i, one := range s.Spec.Spread {
		if place, count := s.Places[i].Of(a); one.Most > 0 && count >= one.Most {
			return one, place, true
		}
	}
	return api.Spread{}, "", false
}

// IsPlaceFull reports whether one of the agent's places does.
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

// Rest is what the shape has in the agent's places but the first.
func (s *Shape) Rest(a *Agent) (counts []int64) {
	for _, p := range s.Places[1:] {
		_, count := p.Of(a)
		counts = append(counts, count)
	}
	return counts
}
