package engine

import "github.com/tenderhq/tender/api"

// helpings is into how many parts, at least, an agent is divided between members with
// demand: each is given one part (at least one task) before the order is looked at
// again, so that shares stay level on one agent too.
const helpings = 16

// wantShape cuts the offer to one helping of whole shapes that the member wants and the offer can hold.
func (e *decider) wantShape(q question, d *decision) {
	a, why := q.agent, nothingFits
	for _, s := range q.member.demand.shapes {
		if s.left() == 0 {
			continue
		}
		switch {
		case !e.passes(s.gate, a):
			if why == nothingFits {
				why = failsConstraint
			}
		case s.spec.OnlyPreferred && !s.isNear(a):
			if e.fit(s, a, d.offer) > 0 {
				why = notNear
			}
		case s.isPlaceFull(a):
			d.full = append(d.full, s)
			if why == nothingFits && e.fit(s, a, d.offer) > 0 {
				why = placeFull
			}
		case e.wantHelping(q, d, s):
			return
		}
	}
	d.why = why
	if len(d.putBy) > 0 {
		d.why = isPutBy
	}
}

// wantHelping cuts the offer to one helping of the shape and reports whether that decides: it is offered, or a
// filter hides it. One that is spread is put by until its turn has come (see postponed.go).
func (e *decider) wantHelping(q question, d *decision, s *shape) bool {
	a, room := q.agent, s.roomInPlaces(q.agent)
	part, n := e.helping(s, a, d.offer, room)
	if n == 0 || q.owed && !e.meetsLack(part) {
		return false
	}
	if e.hidden(a, q.member, d.whole) {
		d.why = isFiltered
		return true
	}
	if len(s.places) > 0 && e.turn.on {
		if !e.admitted.is(s) {
			d.putBy = append(d.putBy, s)
			return false
		}
		part, n = e.helping(s, a, d.offer, min(room, e.admitted.n))
	}
	d.offer, d.plan, d.why = part, planned{q.member.number, s, n}, granted
	return true
}

// helping is as many of the shape as are given at once, no more than most, and how many that are.
func (e *decider) helping(s *shape, a *agent, offer api.Resources, most int64) (part api.Resources, n int64) {
	all := a.plain && same(offer, a.open)
	if all && s.mould.failed == e.number && e.turn.on {
		return part, 0
	}
	fit := e.fit(s, a, offer)
	if fit == 0 && all && e.turn.on {
		s.mould.failed = e.number
	}
	n = min(most, fit, s.left(), e.step(s, a))
	if n == 0 {
		return part, 0
	}
	part, _, fits := offer.Carve(s.times(n))
	if !fits {
		return part, 0
	}
	return part, n
}

// step is the size of a helping where nothing else counts.
func (e *decider) step(s *shape, a *agent) int64 {
	if !s.simple {
		return 1
	}
	e.turn.offer = e.kinds.count(e.turn.offer, a.spec.Total, notVolume)
	return max(1, e.turn.offer.fit(s.ask)/helpings)
}

// fit is how many of the shape the offer holds; of shapes that name numbers or labels
// at most one.
func (e *decider) fit(s *shape, a *agent, offer api.Resources) int64 {
	ask, known := e.askOf(s)
	if !known || s.spec.Resources.IsZero() {
		return 0
	}
	if s.simple && a.plain && same(offer, a.open) {
		return a.counted.fit(ask)
	}
	if s.simple {
		e.turn.offer = e.kinds.count(e.turn.offer, offer, notVolume)
		return e.turn.offer.fit(ask)
	}
	if _, _, fits := offer.Carve(s.spec.Resources); fits {
		return 1
	}
	return 0
}

// notVolume picks what unlabelled asks may be met from.
func notVolume(label api.Label) bool { return label.Volume == "" && !label.Revocable }

// times is so many of the shape. The last answer is kept, because helpings of one size come one after the other.
func (s *shape) times(n int64) api.Resources {
	if n != s.helping || n == 1 {
		s.helping, s.helped = n, times(s.spec.Resources, n)
	}
	return s.helped
}

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
