package taskset

import (
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
)

// restate states the demand to the masters in each role where it has changed. In a role where nothing is wanted nothing
// is offered. Where more is wanted than before, the masters forget the filters.
func (s *Set) restate(now time.Time) error {
	if !s.state.waiting.unsaid && len(s.state.waiting.told) > 0 {
		return nil
	}
	s.state.waiting.unsaid = false
	roles := s.client.Roles()
	wanted := s.state.waiting.demand(now, roles, s.state.known)
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		shapes := wanted[name]
		told, stated := s.state.waiting.told[name]
		if len(roles) > 0 && !slices.Contains(roles, name) || stated && !s.state.waiting.moved[name] && slices.EqualFunc(told, shapes, alike) {
			continue
		}
		s.state.waiting.told[name] = shapes
		delete(s.state.waiting.moved, name)
		if err := s.client.Demand(api.Demand{Role: name, Shapes: slices.Clone(shapes)}); err != nil {
			return err
		}
	}
	return nil
}

func alike(a, b api.Shape) bool {
	return a.Count == b.Count && a.OnlyPreferred == b.OnlyPreferred && a.Resources.Equal(b.Resources) && slices.Equal(a.Preferred, b.Preferred) &&
		a.Group == b.Group && slices.Equal(a.Spread, b.Spread)
}

// demand returns what is wanted in each role of the framework: no shapes for a role in which nothing is wanted.
func (q *waiting) demand(now time.Time, own []api.Role, known bool) map[api.Role][]api.Shape {
	wanted := make(map[api.Role][]api.Shape, len(q.roles))
	for _, name := range own {
		wanted[name] = nil
	}
	var change time.Duration // how long until the demand next changes by time alone
	for _, key := range slices.Sorted(maps.Keys(q.roles)) {
		r := q.roles[key]
		name := q.called(r)
		if !known {
			wanted[name] = nil
			continue
		}
		if r.delay.Queued("") > 0 {
			wanted[name] = append(wanted[name], r.delay.Demand(name).Shapes...)
			if wait := r.delay.NextChange(); wait > 0 && (change == 0 || wait < change) {
				change = wait
			}
		}
		for _, key := range slices.Sorted(maps.Keys(r.shapes)) {
			wanted[name] = append(wanted[name], q.demands(r.shapes[key])...)
		}
		wanted[name] = wanted[name][:min(len(wanted[name]), api.DemandsPerRoleMax)]
	}
	q.awaitChange(now, change)
	return wanted
}

// awaitChange has the demand stated again when the wait is over.
func (q *waiting) awaitChange(now time.Time, wait time.Duration) {
	q.alarms.Clear(q.change)
	q.change = nil
	if q.config.Locality.Withhold && wait > 0 {
		q.change = q.alarms.Add(now.Add(wait), func(time.Time) { q.unsaid = true })
	}
}
