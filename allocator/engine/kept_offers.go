package engine

import (
	"slices"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// keptOffers says when open offers are next looked through for those that are kept, which is neither accepted nor
// declined: what they hold is asked back for stated demand that nothing else can meet. (Protocol rule R42.)
type keptOffers struct {
	at     instant // zero for never
	looked instant // the last time
	some   bool    // then there were some that are kept
	open   int32   // parts of offers that are not answered
	next   int     // number of the agent at which the look goes on
}

const (
	offerStands = instant(allocator.OfferStands)
	// keptLooksMax bounds how many members with demand are looked at in one round; the rest follows
	// keptPause later.
	keptLooksMax = 1024
	keptPause    = instant(10 * time.Millisecond)
)

func (k *keptOffers) due(now instant) bool { return k.at != 0 && k.at <= now }

// opened notes that there is an offer to look at when it has stood for its time.
func (k *keptOffers) opened(now instant) {
	k.open++
	if k.at == 0 {
		k.at = now + offerStands
	}
}

// wake is when there may be something to ask back; zero for never.
func (k *keptOffers) wake() instant {
	if k.open == 0 {
		return 0
	}
	return k.at
}

// wanted looks again at once when somebody wants more and there are offers that are kept.
func (k *keptOffers) wanted(now instant) {
	if k.some && k.at != 0 {
		k.at = min(k.at, max(now, k.looked+keptPause))
	}
}

// askBackKept asks kept offers back, agent by agent, each for the first in the order that can use what they hold.
func (e *asker) askBackKept() []allocator.Inverse {
	k := &e.keptOffers
	if !k.due(e.now) {
		return nil
	}
	if e.hold {
		k.at = e.now + offerStands
		return nil
	}
	var asked []allocator.Inverse
	defer e.pauseAskers()
	clear(e.given)
	soonest, looks := instant(0), 0
	k.looked = e.now
	if k.next > 0 {
		soonest = e.now + offerStands // of the agents before it
	} else {
		k.some = false
	}
	for number := k.next; number < len(e.agents); number++ {
		a := e.agents[number]
		if a == nil || a.offers == 0 {
			continue
		}
		oldest := a.oldestOffer()
		if oldest+offerStands > e.now {
			soonest = sooner(soonest, oldest+offerStands)
			continue
		}
		k.some = true
		soonest = sooner(soonest, e.now+offerStands)
		if inverse, some := e.askBackOf(a, &looks); some {
			asked = append(asked, inverse)
		}
		if looks >= keptLooksMax {
			k.next, k.at = number+1, e.now+keptPause
			return asked
		}
	}
	k.next, k.at = 0, soonest
	return asked
}

// pauseAskers: for whom something was asked back asks for nothing more until it has launched something, or for a
// growing time. Else those who use nothing would take it from each other for ever.
func (e *asker) pauseAskers() {
	for _, m := range e.askers {
		p := &m.preempts
		if p.asksBack <= e.now {
			p.asksBack = e.now + instant(min(preemptPause<<min(p.asked, 20), preemptPauseMax))
			p.asked++
		}
	}
	e.askers = e.askers[:0]
}

// sooner is the earlier of two instants, of which the first may be none.
func sooner(at, other instant) instant {
	if at == 0 {
		return other
	}
	return min(at, other)
}

// oldestOffer is when the first of the agent's open offers was made.
func (a *agent) oldestOffer() instant {
	oldest := instant(0)
	for i := range a.held {
		if a.held[i].offer {
			oldest = sooner(oldest, a.held[i].since)
		}
	}
	return oldest
}

// askBackOf asks back what is kept of the agent for the first in the order that can use it.
func (e *asker) askBackOf(a *agent, looks *int) (allocator.Inverse, bool) {
	if !a.offerable {
		return allocator.Inverse{}, false
	}
	for m := range e.line.all.members() {
		if m.demand == nil || m.preempts.asksBack > e.now {
			continue
		}
		*looks++
		holders := e.keepersFor(m, a)
		if len(holders) == 0 {
			continue
		}
		for _, s := range m.demand.shapes {
			if s.left() <= e.given[s] || !e.mayHave(m, s) || !e.mayRun(m, s, a) {
				continue
			}
			if set, n := e.enoughKept(m, s, a, holders); n > 0 {
				e.given[s] += n
				e.askers = append(e.askers, m)
				return e.inverseOf(m, a, set), true
			}
		}
	}
	return allocator.Inverse{}, false
}

// keepersFor are those who keep offers of the agent that may be asked back for the member, each with what it keeps.
func (e *asker) keepersFor(m *member, a *agent) []*task {
	var keepers []*task
	for i := range a.held {
		h := &a.held[i]
		if !h.offer || h.since+offerStands > e.now {
			continue
		}
		holder := e.members[h.member]
		at := slices.IndexFunc(keepers, func(t *task) bool { return t.member == holder })
		if at < 0 {
			at = len(keepers)
			keepers = append(keepers, &task{member: holder})
		}
		keepers[at].claim.Resources = keepers[at].claim.Resources.Plus(h.resources)
	}
	return slices.DeleteFunc(keepers, func(t *task) bool { return !e.mayAskBack(m, t.member, t.claim.Resources) })
}

// mayAskBack reports whether what somebody keeps may be asked back for the member: no guarantee needs it, and its
// holder would go before the member neither with the offer nor without it. Who states no demand does not say that it
// wants what it holds, and steps back behind those of its rank.
func (e *asker) mayAskBack(m, holder *member, kept api.Resources) bool {
	e.counted = e.kinds.count(e.counted, kept, nil)
	if m.framework == holder.framework || e.isGuaranteedTo(holder.role, m.role, e.counted) {
		return false
	}
	if less := e.policy.Less; less != nil {
		return !less(e.standing(holder), e.standing(m))
	}
	if mine, its := e.rank(m.role), e.rank(holder.role); mine != its {
		return mine > its
	}
	if holder.demand == nil {
		return true
	}
	top := m.role
	for top != nil && !holder.role.name.Within(top.name) {
		top = top.parent
	}
	return e.nextBelow(top, m, m, nil) <= e.nextBelow(top, holder, m, e.counted)
}

// isGuaranteedTo reports whether a role, or one above it that the other is not below, would have less than its
// guarantee without so much of what it holds.
func (e *asker) isGuaranteedTo(r, other *role, held Amounts) bool {
	for ; r != nil && !other.name.Within(r.name); r = r.parent {
		for kind, x := range r.guarantee {
			if gone := held.At(kind); gone > 0 && r.taken.At(kind)-r.leaving.At(kind)-gone < x {
				return true
			}
		}
	}
	return false
}

// nextBelow is where the member stands at the level of the tree below top where its way and the other's part, if it
// did not hold so much.
func (e *asker) nextBelow(top *role, m, other *member, without Amounts) float64 {
	held, weight := m.taken, 1.0
	switch {
	case m.role != top:
		r := m.role
		for r.parent != top {
			r = r.parent
		}
		held, weight = r.taken, r.weight
	case other.role != top:
		held = e.ownOf(top)
	}
	rest := held.clone()
	rest.sub(without)
	return e.policy.Next(rest, e.total, weight)
}

// enoughKept is the least of what is kept of the agent that makes room for one of the shape, and for how many it
// then has room; none when that is not enough, or when there is room without it.
func (e *asker) enoughKept(m *member, s *shape, a *agent, keepers []*task) (set []*task, n int64) {
	lacks := e.lacks(m, s)
	enough := func(set []*task) int64 {
		all := usableBy(m, a.unkept())
		for _, t := range set {
			all = all.Plus(usableBy(m, t.claim.Resources))
		}
		if _, _, fits := all.Carve(s.spec.Resources); !fits || !e.makeRoom(set, lacks) {
			return 0
		}
		return max(1, e.fit(s, a, all))
	}
	if enough(nil) > 0 {
		return nil, 0
	}
	for i := range keepers {
		if n := enough(keepers[i : i+1]); n > 0 {
			return keepers[i : i+1], n
		}
	}
	for i := range keepers {
		if n := enough(keepers[:i+1]); n > 0 {
			return keepers[:i+1], n
		}
	}
	return nil, 0
}

// inverseOf puts what is asked back into words for the core: claims without a task.
func (e *asker) inverseOf(m *member, a *agent, set []*task) allocator.Inverse {
	inverse := allocator.Inverse{For: m.framework.spec.ID, Role: m.role.name, Agent: a.id}
	for _, t := range set {
		inverse.Victims = append(inverse.Victims, allocator.Claim{
			Framework: t.member.framework.spec.ID, Role: t.member.role.name, Agent: a.id, Resources: t.claim.Resources,
		})
	}
	return inverse
}
