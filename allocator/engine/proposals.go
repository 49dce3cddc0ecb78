package engine

import (
	"slices"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// propose books an offer and joins it to the member's other part of the same agent.
func (e *server) propose(a *agent, m *member, d *decision, o *order) {
	offer := d.offer
	e.offers++
	m.served, m.role.own = e.offers, e.offers
	for r := m.role; r != nil; r = r.parent {
		r.served = e.offers
	}
	a.last, a.lastAt = m.number, e.now
	if d.owed || a.noted {
		a.owed = d.owes(m)
		a.note()
	}
	if a.noted || a.offers > 0 || !same(d.whole, offer) {
		e.noteSeen(a, m, d.whole, offer)
	}
	counted := a.counted
	if !same(offer, a.open) {
		e.counted = e.kinds.count(e.counted, offer, nil)
		counted = e.counted
	}
	e.charge(m, offer, counted, +1)
	a.hold(m, offer, true, e.now)
	e.keptOffers.opened(e.now)
	e.setFree(a, less(a.free, offer), nil)
	e.join(a, m, offer)
	if m.demand != nil {
		e.plan(a, m, d.plan)
	}
	e.promises.met = e.promises.met || m.role.promise.near
	e.line.reorder(m, o)
}

// proposed is what this turn has given the member already.
func (t *turn) proposed(m *member) api.Resources {
	if !t.on {
		return api.Resources{}
	}
	if t.resumed != nil {
		if i, some := t.resumed.proposals[m.number]; some {
			return t.proposals[i].Resources
		}
		return api.Resources{}
	}
	for i := t.first; i < len(t.members); i++ {
		if t.members[i] == m.number {
			return t.proposals[i].Resources
		}
	}
	return api.Resources{}
}

func (e *server) join(a *agent, m *member, offer api.Resources) {
	t := &e.turn
	if t.resumed != nil {
		if i, some := t.resumed.proposals[m.number]; some {
			t.proposals[i].Resources = t.proposals[i].Resources.Plus(offer)
			return
		}
		t.resumed.proposals[m.number] = len(t.proposals)
	} else {
		for i := t.first; i < len(t.members); i++ {
			if t.members[i] == m.number {
				t.proposals[i].Resources = t.proposals[i].Resources.Plus(offer)
				return
			}
		}
	}
	t.members = append(t.members, m.number)
	t.proposals = append(t.proposals, allocator.Claim{Framework: m.framework.spec.ID, Role: m.role.name, Agent: a.id, Resources: offer})
}

// plan notes what the offer was sized for; a demand that is served leaves the order.
func (e *server) plan(a *agent, m *member, p planned) {
	p.shape.open += p.n
	e.countPlaces(a, m, p.shape.spec.Group, p.n)
	if e.admitted.shape == p.shape {
		e.admitted.n -= p.n
	}
	at := slices.IndexFunc(a.plans, func(other planned) bool { return other.member == p.member && other.shape == p.shape })
	if at >= 0 {
		a.plans[at].n += p.n
	} else {
		a.plans = append(a.plans, p)
	}
	if !m.demand.wants() {
		e.noteSated(a, m)
		e.line.relist(m)
	}
}

// claims hands the round's proposals out.
func (e *server) claims() []allocator.Claim {
	t := &e.turn
	clear(e.resumed)
	if len(t.proposals) == 0 {
		return nil
	}
	claims := slices.Clone(t.proposals)
	clear(t.proposals)
	t.proposals, t.members, t.first = t.proposals[:0], t.members[:0], 0
	return claims
}
