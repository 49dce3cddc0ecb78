package taskset

import (
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
)

// restate tells the masters what is wanted when that has changed; with nothing wanted
// nothing is offered. Where more is wanted than before the masters forget the filters.
func (s *Set) restate(now time.Time) error {
	if !s.unsaid && s.stated {
		return nil
	}
	s.unsaid = false
	shapes := s.demand(now)
	if s.stated && !s.moved && slices.EqualFunc(s.told, shapes, alike) {
		return nil
	}
	s.told, s.stated, s.moved = shapes, true, false
	return s.client.Demand(api.Demand{Role: s.config.Role, Shapes: slices.Clone(shapes)})
}

func alike(a, b api.Shape) bool {
	return a.Count == b.Count && a.OnlyPreferred == b.OnlyPreferred && a.Resources.Equal(b.Resources) && slices.Equal(a.Preferred, b.Preferred) &&
		a.Group == b.Group && slices.Equal(a.Spread, b.Spread)
}

func (s *Set) demand(now time.Time) []api.Shape {
	var shapes []api.Shape
	if !s.known {
		return shapes
	}
	if s.delay.Queued("") > 0 {
		shapes = s.delay.Demand(s.config.Role).Shapes
		s.awaitChange(now)
	}
	for _, key := range slices.Sorted(maps.Keys(s.shapes)) {
		shapes = append(shapes, s.demands(s.shapes[key])...)
	}
	return shapes[:min(len(shapes), api.DemandsPerRoleMax)]
}

// awaitChange states the demand anew when a wait is over.
func (s *Set) awaitChange(now time.Time) {
	s.alarms.stop(s.change)
	s.change = nil
	if wait := s.delay.NextChange(); s.config.Locality.Withhold && wait > 0 {
		s.change = s.alarms.set(now.Add(wait), func(time.Time) { s.unsaid = true })
	}
}
