package taskset

import (
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
)

// restate tells the masters what is wanted in each role where that has changed; with nothing wanted
// nothing is offered. Where more is wanted than before the masters forget the filters.
func (s *Set) restate(now time.Time) error {
	if !s.unsaid && len(s.told) > 0 {
		return nil
	}
	s.unsaid = false
	wanted, roles := s.demand(now), s.client.Roles()
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		shapes := wanted[name]
		told, stated := s.told[name]
		if len(roles) > 0 && !slices.Contains(roles, name) || stated && !s.moved[name] && slices.EqualFunc(told, shapes, alike) {
			continue
		}
		s.told[name] = shapes
		delete(s.moved, name)
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

// demand is what is wanted in each role of the framework: nothing where no item is.
func (s *Set) demand(now time.Time) map[api.Role][]api.Shape {
	wanted := make(map[api.Role][]api.Shape, len(s.roles))
	for _, name := range s.client.Roles() {
		wanted[name] = nil
	}
	var change time.Duration // the next by time alone
	for _, key := range slices.Sorted(maps.Keys(s.roles)) {
		r := s.roles[key]
		name := s.called(r)
		if !s.known {
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
			wanted[name] = append(wanted[name], s.demands(r.shapes[key])...)
		}
		wanted[name] = wanted[name][:min(len(wanted[name]), api.DemandsPerRoleMax)]
	}
	s.awaitChange(now, change)
	return wanted
}

// awaitChange states the demand anew when a wait is over.
func (s *Set) awaitChange(now time.Time, wait time.Duration) {
	s.alarms.stop(s.change)
	s.change = nil
	if s.config.Locality.Withhold && wait > 0 {
		s.change = s.alarms.set(now.Add(wait), func(time.Time) { s.unsaid = true })
	}
}
