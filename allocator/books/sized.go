package books

import "github.com/tenderhq/tender/api"

// helpings is into how many parts, at least, an agent is divided between members with
// demand: each is given one part (at least one task) before the order is looked at
// again, so that shares stay level on one agent too.
const helpings = 16

// sized is one helping of whole shapes that the member wants and the offer can hold.
func (b *Books) sized(m *member, a *agent, offer api.Resources) (api.Resources, refusal) {
	why := nothingFits
	b.turn.putBy.shapes = b.turn.putBy.shapes[:0]
	for _, s := range m.demand.shapes {
		if s.left() == 0 {
			continue
		}
		if !b.passes(s.gate, a) {
			if why == nothingFits {
				why = failsConstraint
			}
			continue
		}
		if s.spec.OnlyPreferred && !s.isNear(a) {
			if b.fit(s, a, offer) > 0 {
				why = notNear
			}
			continue
		}
		if _, _, full := s.fullPlace(a); full {
			s.noteFull()
			if why == nothingFits && b.fit(s, a, offer) > 0 {
				why = placeFull
			}
			continue
		}
		part, n := b.helping(s, a, offer, s.roomInPlaces(a))
		if n > 0 && (!b.turn.owed || b.meetsLack(part)) {
			if b.hidden(a, m, b.turn.whole) {
				return api.Resources{}, isFiltered
			}
			if len(s.places) > 0 && b.turn.on {
				if !b.turn.admitted.is(s) {
					b.turn.putBy.shapes = append(b.turn.putBy.shapes, s)
					continue
				}
				part, n = b.helping(s, a, offer, min(s.roomInPlaces(a), b.turn.admitted.n))
			}
			b.turn.plan = planned{m.number, s, n}
			return part, granted
		}
	}
	if len(b.turn.putBy.shapes) > 0 {
		b.turn.putBy.member = m
		why = isPutBy
	}
	return api.Resources{}, why
}

// helping is as many of the shape as are given at once, no more than most, and how many that are.
func (b *Books) helping(s *shape, a *agent, offer api.Resources, most int64) (part api.Resources, n int64) {
	all := a.plain && same(offer, a.open)
	if all && s.mould.failed == b.turn.number && b.turn.on {
		return part, 0
	}
	fit := b.fit(s, a, offer)
	if fit == 0 && all && b.turn.on {
		s.mould.failed = b.turn.number
	}
	n = min(most, fit, s.left(), b.step(s, a))
	if n == 0 {
		return part, 0
	}
	part, _, fits := offer.Carve(times(s.spec.Resources, n))
	if !fits {
		return part, 0
	}
	return part, n
}

// step is the size of a helping where nothing else counts.
func (b *Books) step(s *shape, a *agent) int64 {
	if !s.simple {
		return 1
	}
	b.turn.offer = b.kinds.count(b.turn.offer, a.spec.Total, notVolume)
	return max(1, b.turn.offer.fit(s.ask)/helpings)
}

// fit is how many of the shape the offer holds; of shapes that name numbers or labels
// at most one.
func (b *Books) fit(s *shape, a *agent, offer api.Resources) int64 {
	ask, known := b.askOf(s)
	if !known || s.spec.Resources.IsZero() {
		return 0
	}
	if s.simple && a.plain && same(offer, a.open) {
		return a.counted.fit(ask)
	}
	if s.simple {
		b.turn.offer = b.kinds.count(b.turn.offer, offer, notVolume)
		return b.turn.offer.fit(ask)
	}
	if _, _, fits := offer.Carve(s.spec.Resources); fits {
		return 1
	}
	return 0
}

// notVolume picks what unlabelled asks may be met from.
func notVolume(label api.Label) bool { return label.Volume == "" && !label.Revocable }

// times is n times simple resources.
func times(resources api.Resources, n int64) api.Resources {
	if n == 1 {
		return resources
	}
	items := make([]api.Resource, len(resources.Items()))
	for i, item := range resources.Items() {
		items[i] = item
		items[i].Scalar *= api.Milli(n)
	}
	return api.NewResources(items...)
}
