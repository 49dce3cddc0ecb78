package engine

import (
	"github.com/tenderhq/tender/allocator/engine/internal/books"
	"github.com/tenderhq/tender/api"
)

// helpings is into how many parts an agent is divided, at least, between members with demand. Each is given one part
// (at least one task) before the order is looked at again, so that shares stay equal even on one agent.
const helpings = 16

// wantShape reduces the offer to one helping of a shape that the member wants and that the offer can hold.
func (e *decider) wantShape(q question, d *decision) {
	a, why := q.agent, nothingFits
	for _, s := range q.member.Demand.Shapes {
		if s.Left() == 0 {
			continue
		}
		switch {
		case !e.Passes(s.Gate, a):
			if why == nothingFits {
				why = failsConstraint
			}
		case s.LacksVolume(q.member, a) != "":
			if why == nothingFits {
				why = lacksVolume
			}
		case s.Spec.OnlyPreferred && !s.IsNear(a):
			if e.countFitting(s, a, d.offer) > 0 {
				why = notNear
			}
		case s.IsPlaceFull(a):
			d.full = append(d.full, s)
			if why == nothingFits && e.countFitting(s, a, d.offer) > 0 {
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

// wantHelping reduces the offer to one helping of the shape. It reports whether that decides the question: the helping
// is offered, or a filter hides it. A shape that is spread is put by until its turn has come (see postponed.go).
func (e *decider) wantHelping(q question, d *decision, s *books.Shape) bool {
	a, room := q.agent, s.RoomInPlaces(q.agent)
	part, n := e.helping(s, a, d.offer, room)
	if n == 0 || q.owed && !e.meetsLack(part) {
		return false
	}
	if e.hidden(a, q.member, d.whole) {
		d.why = isFiltered
		return true
	}
	if len(s.Places) > 0 && e.Turn.On {
		if !e.admitted.is(s) {
			d.putBy = append(d.putBy, s)
			return false
		}
		part, n = e.helping(s, a, d.offer, min(room, e.admitted.n))
	}
	d.offer, d.plan, d.why = part, books.Planned{Member: q.member.Number, Shape: s, N: n}, granted
	return true
}

// helping returns one helping of the shape, at most `most` tasks, and how many tasks that is.
func (e *decider) helping(s *books.Shape, a *books.Agent, offer api.Resources, most int64) (part api.Resources, n int64) {
	all := a.Plain && books.Same(offer, a.Open)
	if all && s.Mould.Failed == e.number && e.Turn.On {
		return part, 0
	}
	fit := e.countFitting(s, a, offer)
	if fit == 0 && all && e.Turn.On {
		s.Mould.Failed = e.number
	}
	n = min(most, fit, s.Left(), e.sizeHelping(s, a))
	if n == 0 {
		return part, 0
	}
	part, fits := carve(a, offer, s.Times(n).WholeVolumes(offer))
	if !fits {
		return part, 0
	}
	return part, n
}

// sizeHelping returns the size of a helping, before what is free and wanted is considered.
func (e *decider) sizeHelping(s *books.Shape, a *books.Agent) int64 {
	if !s.Simple {
		return 1
	}
	e.Turn.Offer = e.Kinds.Count(e.Turn.Offer, a.Spec.Total, meetsAny)
	return max(1, e.Turn.Offer.Fit(s.Ask)/helpings)
}

// countFitting returns how many of the shape the offer holds. For shapes with ranges, sets or labels it returns at most
// one.
func (e *decider) countFitting(s *books.Shape, a *books.Agent, offer api.Resources) int64 {
	ask, known := e.AskOf(s)
	if !known || s.Spec.Resources.IsZero() {
		return 0
	}
	if s.Simple && a.Plain && books.Same(offer, a.Open) {
		return a.Counted.Fit(ask)
	}
	if s.Simple {
		e.Turn.Offer = e.Kinds.Count(e.Turn.Offer, offer, meetsAny)
		return e.Turn.Offer.Fit(ask)
	}
	if _, _, fits := offer.Carve(s.Spec.Resources.WholeVolumes(offer)); fits {
		return 1
	}
	return 0
}

func meetsAny(label api.Label) bool { return label.MeetsAny() }
