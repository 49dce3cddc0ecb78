package engine

import (
	"slices"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/engine/internal/books"
	"github.com/tenderhq/tender/api"
)

// keptLooksMax bounds how many looks at members with demand one round takes; the rest follows books.KeptPause later.
const keptLooksMax = 1024

// askBackKept asks back kept offers, agent by agent, each for the first member in the order that can use what they
// hold.
func (e *asker) askBackKept() []allocator.Inverse {
	k := &e.KeptOffers
	if !k.Due(e.Now) {
		return nil
	}
	if e.OnHold || e.line.floor.open == e.line.all.size { // or nobody in the order states a demand
		k.At, k.Looked, k.Some = e.Now+books.OfferStands, e.Now, true
		return nil
	}
	var asked []allocator.Inverse
	defer e.pauseAskers()
	clear(e.given)
	soonest, looks := books.Instant(0), 0
	k.Looked = e.Now
	if k.Next > 0 {
		soonest = e.Now + books.OfferStands // for the agents before this one
	} else {
		k.Some = false
	}
	for number := k.Next; number < len(e.Agents); number++ {
		a := e.Agents[number]
		if a == nil || len(a.Offers()) == 0 {
			continue
		}
		oldest := a.OldestOffer()
		if oldest+books.OfferStands > e.Now {
			soonest = books.Sooner(soonest, oldest+books.OfferStands)
			continue
		}
		k.Some = true
		soonest = books.Sooner(soonest, e.Now+books.OfferStands)
		if inverse, some := e.askBackOf(a, &looks); some {
			asked = append(asked, inverse)
		}
		if looks >= keptLooksMax {
			k.Next, k.At = number+1, e.Now+books.KeptPause
			return asked
		}
	}
	k.Next, k.At = 0, soonest
	return asked
}

// pauseAskers makes members wait for which something was asked back: nothing more is asked back for them until they
// have launched something, or for a time that grows. Otherwise members that use nothing would take offers from each
// other for ever.
func (e *asker) pauseAskers() {
	for _, m := range e.askers {
		p := &m.Preempts
		if p.AsksBack <= e.Now {
			p.AsksBack = e.Now + books.PauseAfter(p.Asked)
			p.Asked++
		}
	}
	e.askers = e.askers[:0]
}

// askBackOf asks back what is kept of the agent, for the first member in the order that can use it.
func (e *asker) askBackOf(a *books.Agent, looks *int) (allocator.Inverse, bool) {
	if !a.Offerable {
		return allocator.Inverse{}, false
	}
	for m := range e.line.all.members() {
		if m.Demand == nil || m.Preempts.AsksBack > e.Now {
			continue
		}
		*looks++
		holders := e.keepersFor(m, a)
		if len(holders) == 0 {
			continue
		}
		for _, s := range m.Demand.Shapes {
			if s.Left() <= e.given[s] || !e.mayHave(m, s) || !e.mayRun(m, s, a) {
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

// keepersFor returns the members from which kept offers of the agent may be asked back for m, each with what it keeps.
func (e *asker) keepersFor(m *books.Member, a *books.Agent) []*books.Task {
	var keepers []*books.Task
	for _, h := range a.Offers() {
		if h.Since+books.OfferStands > e.Now {
			continue
		}
		holder := e.Members[h.Member]
		at := slices.IndexFunc(keepers, func(t *books.Task) bool { return t.Member == holder })
		if at < 0 {
			at = len(keepers)
			keepers = append(keepers, &books.Task{Member: holder})
		}
		keepers[at].Claim.Resources = keepers[at].Claim.Resources.Plus(h.Resources)
	}
	return slices.DeleteFunc(keepers, func(t *books.Task) bool { return !e.mayAskBack(m, t.Member, t.Claim.Resources) })
}

// mayAskBack reports whether what the holder keeps may be asked back for the member. It must not be needed for a
// guarantee, and the holder must not go before the member, neither with the offer nor without it. A holder that states
// no demand does not say that it wants what it holds, so it comes after all others of its rank.
func (e *asker) mayAskBack(m, holder *books.Member, kept api.Resources) bool {
	e.Counted = e.Kinds.Count(e.Counted, kept, nil)
	if m.Framework == holder.Framework || e.isGuaranteedTo(holder.Role, m.Role, e.Counted) {
		return false
	}
	if less := e.policy.Less; less != nil {
		return !less(e.standing(holder), e.standing(m))
	}
	if mine, its := e.rankOf(m.Role), e.rankOf(holder.Role); mine != its {
		return mine > its
	}
	if holder.Demand == nil {
		return true
	}
	top := m.Role
	for top != nil && !holder.Role.Name.Within(top.Name) {
		top = top.Parent
	}
	return e.nextBelow(top, m, m, nil) <= e.nextBelow(top, holder, m, e.Counted)
}

// isGuaranteedTo reports whether the role, or a role above it that is not above the other role too, would have less
// than its guarantee if it lost this much of what it holds.
func (e *asker) isGuaranteedTo(r, other *books.Role, held books.Amounts) bool {
	for ; r != nil && !other.Name.Within(r.Name); r = r.Parent {
		for kind, x := range r.Guarantee {
			if gone := held.At(kind); gone > 0 && r.Taken.At(kind)-r.Leaving.At(kind)-gone < x {
				return true
			}
		}
	}
	return false
}

// nextBelow returns where the member stands, at the level of the tree just below top where its path and the other's
// part, if it did not hold `without`.
func (e *asker) nextBelow(top *books.Role, m, other *books.Member, without books.Amounts) float64 {
	held, weight := m.Taken, 1.0
	switch {
	case m.Role != top:
		r := m.Role
		for r.Parent != top {
			r = r.Parent
		}
		held, weight = r.Taken, r.Weight
	case other.Role != top:
		held = e.OwnOf(top)
	}
	rest := held.Clone()
	rest.Sub(without)
	return e.policy.Next(rest, e.Total, weight)
}

// enoughKept returns the smallest set of kept offers of the agent that makes room for one of the shape, and for how
// many it then has room. It returns none if all of them are not enough, or if there is room anyway.
func (e *asker) enoughKept(m *books.Member, s *books.Shape, a *books.Agent, keepers []*books.Task) (set []*books.Task, n int64) {
	lacks := e.lacksOf(m, s)
	enough := func(set []*books.Task) int64 {
		all := books.UsableBy(m, a.Unkept())
		for _, t := range set {
			all = all.Plus(books.UsableBy(m, t.Claim.Resources))
		}
		if _, _, fits := all.Carve(s.Spec.Resources); !fits || !e.makeRoom(set, lacks) {
			return 0
		}
		return max(1, e.countFitting(s, a, all))
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

// inverseOf returns the proposal to ask back the set, as claims without a task.
func (e *asker) inverseOf(m *books.Member, a *books.Agent, set []*books.Task) allocator.Inverse {
	inverse := allocator.Inverse{For: m.Framework.Spec.ID, Role: m.Role.Name, Agent: a.ID}
	for _, t := range set {
		inverse.Victims = append(inverse.Victims, allocator.Claim{
			Framework: t.Member.Framework.Spec.ID, Role: t.Member.Role.Name, Agent: a.ID, Resources: t.Claim.Resources,
		})
	}
	return inverse
}
