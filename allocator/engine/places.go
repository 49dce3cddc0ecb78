package engine

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
	counts map[string]int64
	users  int  // shapes
	full   bool // somebody was refused a place because it held the most; looked at again when one has less
}

// of is the agent's place, and what is there.
func (p *places) of(a *agent) (place string, count int64) {
	place = p.by.Of(a.spec.ID, a.spec.Region, a.spec.Zone, a.spec.Attributes)
	return place, p.counts[place]
}

// placesOf finds the member's counts, or makes them of what it has.
func (e *books) placesOf(m *member, by api.Place, group string) *places {
	for _, p := range m.places {
		if p.by == by && p.group == group {
			p.users++
			return p
		}
	}
	p := &places{by: by, group: group, users: 1}
	m.places = append(m.places, p)
	e.recount(m, p)
	return p
}

// leavePlaces ends one use.
func (e *books) leavePlaces(m *member, p *places) {
	if p.users--; p.users == 0 {
		m.places = slices.DeleteFunc(m.places, func(other *places) bool { return other == p })
	}
}

// recount counts everything anew.
func (e *books) recount(m *member, p *places) {
	p.counts = make(map[string]int64)
	for _, a := range e.agents {
		if a == nil {
			continue
		}
		for i := range a.counts {
			if one := &a.counts[i]; one.member == m.number && one.group == p.group {
				place, _ := p.of(a)
				p.counts[place] += one.n
			}
		}
		for i := range a.plans {
			if plan := &a.plans[i]; plan.member == m.number && plan.shape.spec.Group == p.group {
				place, _ := p.of(a)
				p.counts[place] += plan.n
			}
		}
	}
}

// recountAll follows an agent that has moved to another place.
func (e *books) recountAll() {
	for _, m := range e.members {
		if m == nil {
			continue
		}
		for _, p := range m.places {
			e.recount(m, p)
		}
	}
}

// countTask counts one of the member's tasks (n = 1), or no longer (n = -1).
func (e *books) countTask(a *agent, m *member, claim allocator.Claim, n int64) {
	if claim.Task == "" {
		return
	}
	at := slices.IndexFunc(a.counts, func(one tasksOf) bool { return one.member == m.number && one.group == claim.Group })
	switch {
	case at < 0 && n < 0:
		return
	case at < 0:
		a.counts = append(a.counts, tasksOf{m.number, claim.Group, n})
	default:
		if a.counts[at].n += n; a.counts[at].n == 0 {
			a.counts = slices.Delete(a.counts, at, at+1)
		}
	}
	e.countPlaces(a, m, claim.Group, n)
}

// dropCounts forgets the member's tasks on the agent.
func (e *books) dropCounts(a *agent, m *member) {
	a.counts = slices.DeleteFunc(a.counts, func(one tasksOf) bool {
		if one.member == m.number {
			e.countPlaces(a, m, one.group, -one.n)
		}
		return one.member == m.number
	})
}

// countPlaces adds to what the member has of the group where the agent is.
func (e *books) countPlaces(a *agent, m *member, group string, n int64) {
	for _, p := range m.places {
		if p.group != group || n == 0 {
			continue
		}
		place, _ := p.of(a)
		if p.counts[place] += n; p.counts[place] <= 0 {
			delete(p.counts, place)
		}
		if n < 0 && p.full {
			p.full = false
			e.dirty.member(m)
		}
	}
}

// spread puts the shape's places in place of those it had.
func (e *books) spread(s *shape, m *member, wanted []api.Spread, group string) {
	before := s.places
	s.places = nil
	for _, one := range wanted {
		s.places = append(s.places, e.placesOf(m, one.By, group))
	}
	for _, p := range before {
		e.leavePlaces(m, p)
	}
}

// roomInPlaces is how many more of the shape the agent's places may have; many if nothing bounds them.
func (s *shape) roomInPlaces(a *agent) int64 {
	const many = 1 << 40
	room := int64(many)
	for i, one := range s.spec.Spread {
		if one.Most > 0 {
			_, count := s.places[i].of(a)
			room = min(room, max(0, one.Most-count))
		}
	}
	return room
}

// fullPlace is the first of the agent's places that holds as many of the shape as is wanted in one.
func (s *shape) fullPlace(a *agent) (one api.Spread, place string, full bool) {
	for i, one := range s.spec.Spread {
		if place, count := s.places[i].of(a); one.Most > 0 && count >= one.Most {
			return one, place, true
		}
	}
	return api.Spread{}, "", false
}

// isPlaceFull reports whether one of the agent's places does.
func (s *shape) isPlaceFull(a *agent) bool {
	if len(s.places) == 0 {
		return false
	}
	_, _, full := s.fullPlace(a)
	return full
}

// noteFull has the member looked at again when one of the shape's places has less.
func (s *shape) noteFull() {
	for _, p := range s.places {
		p.full = true
	}
}
