package engine

import (
	"slices"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/engine/internal/books"
	"github.com/tenderhq/tender/api"
)

// propose books an offer, and merges it with an offer of the same agent that the member got earlier in this round.
func (e *server) propose(a *books.Agent, m *books.Member, d *decision, o *order) {
	offer := d.offer
	e.offers++
	m.Served, m.Role.Own = e.offers, e.offers
	for r := m.Role; r != nil; r = r.Parent {
		r.Served = e.offers
	}
	a.Last, a.LastAt = m.Number, e.Now
	if d.owed || a.Noted {
		a.Owed = d.owes(m)
		a.Note()
	}
	if a.Noted || len(a.Offers()) > 0 || !books.Same(d.whole, offer) {
		e.NoteSeen(a, m, d.whole, offer)
	}
	counted := a.Counted
	if !books.Same(offer, a.Open) {
		e.Counted = e.Kinds.Count(e.Counted, offer, nil)
		counted = e.Counted
	}
	e.Charge(m, offer, counted, +1)
	a.Hold(m, offer, true, e.Now)
	e.KeptOffers.Opened(e.Now)
	e.SetFree(a, books.Less(a.Free, offer), nil)
	e.joinProposal(a, m, offer)
	if m.Demand != nil {
		e.notePlan(a, m, d.plan)
		notePorts(a, offer)
	}
	e.Promises.Met = e.Promises.Met || m.Role.Promise.Near
	e.line.reorder(m, o)
}

func (e *server) joinProposal(a *books.Agent, m *books.Member, offer api.Resources) {
	t := &e.Turn
	if t.Resumed != nil {
		if i, some := t.Resumed.Proposals[m.Number]; some {
			t.Proposals[i].Resources = t.Proposals[i].Resources.Plus(offer)
			return
		}
		t.Resumed.Proposals[m.Number] = len(t.Proposals)
	} else {
		for i := t.First; i < len(t.Members); i++ {
			if t.Members[i] == m.Number {
				t.Proposals[i].Resources = t.Proposals[i].Resources.Plus(offer)
				return
			}
		}
	}
	t.Members = append(t.Members, m.Number)
	t.Proposals = append(t.Proposals, allocator.Claim{Framework: m.Framework.Spec.ID, Role: m.Role.Name, Agent: a.ID, Resources: offer})
}

// notePlan notes what the offer was sized for. A member whose demand is met leaves the order.
func (e *server) notePlan(a *books.Agent, m *books.Member, p books.Planned) {
	p.Shape.Open += p.N
	e.CountPlaces(a, m, p.Shape.Spec.Group, p.N)
	if e.admitted.shape == p.Shape {
		e.admitted.n -= p.N
	}
	at := slices.IndexFunc(a.Plans, func(other books.Planned) bool { return other.Member == p.Member && other.Shape == p.Shape })
	if at >= 0 {
		a.Plans[at].N += p.N
	} else {
		a.Plans = append(a.Plans, p)
	}
	if !m.Demand.Wants() {
		e.NoteSated(a, m)
		e.line.relist(m)
	}
}

// claims returns the round's proposals and forgets them.
func (e *server) claims() []allocator.Claim {
	t := &e.Turn
	clear(e.resumed)
	if len(t.Proposals) == 0 {
		return nil
	}
	claims := slices.Clone(t.Proposals)
	clear(t.Proposals)
	t.Proposals, t.Members, t.First = t.Proposals[:0], t.Members[:0], 0
	return claims
}
