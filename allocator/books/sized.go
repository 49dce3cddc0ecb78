package books

import "github.com/tenderhq/tender/api"

// helpings is into how many parts, at least, an agent is divided between members with
// demand: each is given one part (at least one task) before the order is looked at
// again, so that shares stay level on one agent too.
const helpings = 16

// sized is one helping of whole shapes that the member wants and the offer can hold.
func (b *Books) sized(m *member, a *agent, offer api.Resources) (api.Resources, refusal) {
	why := nothingFits
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
		part, n := b.helping(s, a, offer)
		if n == 0 {
			continue
		}
		if s.spec.OnlyPreferred && !s.isNear(a) {
			why = notNear
			continue
		}
		b.turn.plan = planned{s, n}
		return part, granted
	}
	return api.Resources{}, why
}

// helping is as many of the shape as are given at once, and how many that are.
func (b *Books) helping(s *shape, a *agent, offer api.Resources) (api.Resources, int64) {
	ask, known := b.askOf(s)
	if !known || s.spec.Resources.IsZero() {
		return api.Resources{}, 0
	}
	n := int64(1)
	if s.simple {
		b.turn.offer = b.kinds.count(b.turn.offer, offer, notVolume)
		fit := b.turn.offer.fit(ask)
		if fit == 0 {
			return api.Resources{}, 0
		}
		b.turn.offer = b.kinds.count(b.turn.offer, a.spec.Total, notVolume)
		n = min(fit, s.left(), max(1, b.turn.offer.fit(ask)/helpings))
	}
	part, _, fits := offer.Carve(times(s.spec.Resources, n))
	if !fits {
		return api.Resources{}, 0
	}
	return part, n
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
