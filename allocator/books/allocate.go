package books

import (
	"slices"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// turn is the state of looking at one agent, and memory that is used again.
type turn struct {
	on        bool
	number    uint64
	plan      planned           // of the last portion of stated demand
	proposals []allocator.Claim // of this round
	members   []int32           // to whom
	first     int               // where the agent's own begin

	own, change, offer, rest, relief, asked, floor amounts
	rooms                                   []room
	guests                                  []*member
}

// Allocate proposes offers for all that is free, wanted and allowed now.
func (b *Books) Allocate(now time.Time) allocator.Allocation {
	b.now = max(b.now, b.instantOf(now))
	b.filters.expire(b)
	inverse := b.keeps.due(b)
	if b.dirty.clean() && !inverse {
		return allocator.Allocation{}
	}
	b.round++
	b.yield()
	b.settle()
	for again := true; again; again = b.metOnTheWay() || len(b.dirty.agents) > 0 {
		b.serveAll()
		b.serveFew()
	}
	allocation := allocator.Allocation{Inverse: b.preempt()}
	allocation.Offers = b.claims()
	return allocation
}

// metOnTheWay reports whether an offer has met (part of) a guarantee after somebody got
// less for its sake: then all is looked at once more. Each time something was offered,
// so that this ends.
func (b *Books) metOnTheWay() bool {
	p := &b.promises
	if !p.met || !p.blocked {
		p.met = false
		return false
	}
	p.met, p.blocked = false, false
	b.round++
	b.dirty.everything(b)
	b.settle()
	return true
}

// serveAll looks at the agents that have more to give, for all members.
func (b *Books) serveAll() {
	agents := b.dirty.agents
	for _, number := range b.nearFirst(agents) {
		if a := b.agents[number]; a != nil && a.dirty {
			a.dirty, a.waiting, a.pending = false, false, a.pending[:0]
			a.looked = b.round
			b.serve(a, b.all)
		}
	}
	b.dirty.agents = agents[:0]
}

// serveFew looks at all other agents, for those members alone that may take more than
// before: of all agents, or of the one whose filter has ended.
func (b *Books) serveFew() {
	members := b.dirty.members
	if len(members) > 0 {
		for _, m := range members {
			m.fresh = false
			if m.role != nil && m.listed && !b.few.has(m) {
				b.few.insert(m)
			}
		}
		b.serveIdle(members)
		for _, m := range members {
			if m.role != nil {
				b.few.remove(m)
			}
		}
		clear(members)
		b.dirty.members = members[:0]
	}
	for _, number := range b.dirty.pending {
		if a := b.agents[number]; a != nil && a.waiting {
			b.servePending(a)
		}
	}
	b.dirty.pending = b.dirty.pending[:0]
}

func (b *Books) serveIdle(members []*member) {
	for _, m := range members {
		if m.role != nil && m.listed {
			b.serveNear(m)
		}
	}
	for _, a := range b.agents {
		if b.few.size == 0 {
			return
		}
		b.serveIdleAgent(a)
	}
}

// serveNear looks first at the agents that the member prefers.
func (b *Books) serveNear(m *member) {
	if m.demand == nil {
		return
	}
	for _, s := range m.demand.shapes {
		for _, id := range s.spec.Preferred {
			b.serveIdleAgent(b.agentOf(id))
		}
	}
}

func (b *Books) serveIdleAgent(a *agent) {
	if a != nil && a.looked != b.round && a.offerable && !a.open.IsZero() {
		a.looked = b.round
		if a.waiting {
			b.servePending(a)
		} else {
			b.serveOthers(a)
		}
	}
}

// serveOthers looks at an agent for the few. Where some took part of what is reserved,
// another may now be offered what its filter did not hide: then all are asked again.
func (b *Books) serveOthers(a *agent) {
	before := len(b.turn.proposals)
	b.serve(a, b.few)
	if !a.plain && len(a.filters) > 0 && len(b.turn.proposals) > before {
		b.dirty.agent(b, a)
	}
}

// servePending looks at an agent for those whose filter has ended as well.
func (b *Books) servePending(a *agent) {
	guests := b.turn.guests[:0]
	for _, number := range a.pending {
		if m := b.members[number]; m != nil && m.listed && !b.few.has(m) {
			b.few.insert(m)
			guests = append(guests, m)
		}
	}
	b.turn.guests = guests
	a.waiting, a.pending = false, a.pending[:0]
	b.serveOthers(a)
	for _, m := range guests {
		b.few.remove(m)
	}
}

// serve offers what the agent has, member by member, until nobody takes more.
func (b *Books) serve(a *agent, o *order) {
	if !a.offerable {
		return
	}
	t := &b.turn
	t.on = true
	t.number++
	t.first = len(t.proposals)
	if len(a.keeps) > 0 {
		b.serveKeeps(a, o)
	}
	for !a.open.IsZero() && o.size > 0 && !b.floor.under(a) && (b.serveOwed(a, o) || b.serveOrder(a, o)) {
	}
	t.on = false
}

// serveOwed asks the members of roles that lack something of their guarantee.
func (b *Books) serveOwed(a *agent, o *order) bool {
	for _, chunk := range b.promises.owed.chunks {
		for _, e := range chunk {
			r := b.promises.roles[e.id]
			for _, l := range o.lanes {
				for _, p := range r.places[o.which] {
					if p.lane == l && b.servePlace(a, o, p, true) {
						return true
					}
				}
			}
		}
	}
	return false
}

func (b *Books) serveOrder(a *agent, o *order) bool {
	for _, l := range o.lanes {
		if b.servePlace(a, o, l.root, false) {
			return true
		}
	}
	return false
}

// servePlace asks the members below the place in order, until one takes something.
func (b *Books) servePlace(a *agent, o *order, p *place, owed bool) bool {
	for _, chunk := range p.list.chunks {
		for i := range chunk {
			id := chunk[i].id
			if id < 0 {
				if b.serveBelow(a, o, o.parts[^id], owed) {
					return true
				}
				continue
			}
			m := b.members[id]
			if m.passed == b.turn.number {
				continue
			}
			offer, why := b.portion(m, a, owed)
			if why == granted {
				b.propose(a, m, offer, o)
				return true
			}
			if !owed && (a.plain || why != isFiltered) { // else another cut may not be hidden
				m.passed = b.turn.number
			}
		}
	}
	return false
}

// serveBelow passes by a role that is at its limit, with all below it.
func (b *Books) serveBelow(a *agent, o *order, p *place, owed bool) bool {
	if p.role.full && a.plain {
		p.role.cut = true
		return false
	}
	return b.servePlace(a, o, p, owed)
}

// propose books an offer and joins it to the member's other part of the same agent.
func (b *Books) propose(a *agent, m *member, offer api.Resources, o *order) {
	b.offers++
	m.served, m.role.own = b.offers, b.offers
	for r := m.role; r != nil; r = r.parent {
		r.served = b.offers
	}
	a.last = m.number
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
	for i := t.first; i < len(t.members); i++ {
		if t.members[i] == m.number {
			t.proposals[i].Resources = t.proposals[i].Resources.Plus(offer)
			return
		}
	}
	t.members = append(t.members, m.number)
	t.proposals = append(t.proposals, allocator.Claim{Framework: m.framework.spec.ID, Role: m.role.name, Agent: a.id, Resources: offer})
}

// plan notes what the offer was sized for; a demand that is served leaves the order.
func (b *Books) plan(a *agent, m *member) {
	p := b.turn.plan
	p.shape.open += p.n
	at := slices.IndexFunc(a.plans, func(other planned) bool { return other.member == p.member && other.shape == p.shape })
	if at >= 0 {
		a.plans[at].n += p.n
	} else {
		a.plans = append(a.plans, p)
	}
	if !m.demand.wants() {
		b.relist(m)
	}
}

// claims hands the round's proposals out.
func (b *Books) claims() []allocator.Claim {
	t := &b.turn
	if len(t.proposals) == 0 {
		return nil
	}
	claims := slices.Clone(t.proposals)
	clear(t.proposals)
	t.proposals, t.members, t.first = t.proposals[:0], t.members[:0], 0
	return claims
}

// Wake is the next moment at which Allocate would propose something by itself.
func (b *Books) Wake() time.Time {
	next, any := b.filters.next(b)
	if due, ok := b.keeps.next(); ok && (!any || due < next) {
		next, any = due, true
	}
	if !any {
		return time.Time{}
	}
	return b.timeOf(next)
}

// nearFirst puts agents that somebody in the order prefers before the others.
func (b *Books) nearFirst(agents []int32) []int32 {
	if len(b.preferred) > 0 {
		slices.SortStableFunc(agents, func(x, y int32) int { return b.distance(x) - b.distance(y) })
	}
	return agents
}

func (b *Books) distance(number int32) int {
	if a := b.agents[number]; a != nil && b.preferred[a.spec.ID] > 0 {
		return 0
	}
	return 1
}
