package books

import (
	"slices"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// propose books an offer and joins it to the member's other part of the same agent.
func (b *Books) propose(a *agent, m *member, offer api.Resources, o *order) {
	b.offers++
	m.served, m.role.own = b.offers, b.offers
	for r := m.role; r != nil; r = r.parent {
		r.served = b.offers
	}
	a.last, a.lastAt = m.number, b.now
	if b.turn.owed || a.noted {
		a.owed = b.turn.owes(m)
		a.note()
	}
	if a.noted || a.offers > 0 || !same(b.turn.whole, offer) {
		b.noteSeen(a, m, b.turn.whole, offer)
	}
	counted := a.counted
	if !same(offer, a.open) {
		b.counted = b.kinds.count(b.counted, offer, nil)
		counted = b.counted
	}
	b.charge(m, offer, counted, +1)
	a.hold(m, offer, true)
	b.setFree(a, less(a.free, offer), nil)
	b.join(a, m, offer)
	if m.demand != nil {
		b.plan(a, m)
	}
	b.promises.met = b.promises.met || m.role.promise.near
	b.reorder(m, o)
}

// proposed is what this turn has given the member already.
func (b *Books) proposed(m *member) api.Resources {
	if b.turn.on {
		if b.turn.resumed != nil {
			if i, some := b.turn.resumed.proposals[m.number]; some {
				return b.turn.proposals[i].Resources
			}
			return api.Resources{}
		}
		for i := b.turn.first; i < len(b.turn.members); i++ {
			if b.turn.members[i] == m.number {
				return b.turn.proposals[i].Resources
			}
		}
	}
	return api.Resources{}
}

func (b *Books) join(a *agent, m *member, offer api.Resources) {
	t := &b.turn
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
func (b *Books) plan(a *agent, m *member) {
	p := b.turn.plan
	p.shape.open += p.n
	b.countPlaces(a, m, p.shape.spec.Group, p.n)
	if b.turn.admitted.shape == p.shape {
		b.turn.admitted.n -= p.n
	}
	at := slices.IndexFunc(a.plans, func(other planned) bool { return other.member == p.member && other.shape == p.shape })
	if at >= 0 {
		a.plans[at].n += p.n
	} else {
		a.plans = append(a.plans, p)
	}
	if !m.demand.wants() {
		b.noteSated(a, m)
		b.relist(m)
	}
}

// claims hands the round's proposals out.
func (b *Books) claims() []allocator.Claim {
	t := &b.turn
	clear(b.resumed)
	if len(t.proposals) == 0 {
		return nil
	}
	claims := slices.Clone(t.proposals)
	clear(t.proposals)
	t.proposals, t.members, t.first = t.proposals[:0], t.members[:0], 0
	return claims
}
