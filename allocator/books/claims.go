package books

import (
	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// Take books resources that are in use but were not proposed.
func (b *Books) Take(claim allocator.Claim) {
	a, f := b.agentOf(claim.Agent), b.frameworks[claim.Framework]
	if a == nil || f == nil || claim.Resources.IsZero() {
		return
	}
	m := b.memberOf(f, claim.Role)
	a.hold(m, claim.Resources, false)
	b.counted = b.kinds.count(b.counted, claim.Resources, nil)
	b.charge(m, claim.Resources, b.counted, +1)
	if covers(a.free, claim.Resources) {
		b.setFree(a, less(a.free, claim.Resources), nil)
	} else {
		b.refree(a)
	}
	if !a.plain && len(a.filters) > 0 { // another cut of what is left may not be hidden
		b.dirty.agent(b, a)
	}
	b.touchMember(m)
	b.addTask(a, m, claim)
	b.countTask(a, m, claim, +1)
	if claim.Task != "" {
		b.forgive(m)
	}
	b.loosen()
}

// Launch turns part of what an offer held into a task's claim.
func (b *Books) Launch(claim allocator.Claim) {
	a, m := b.find(claim)
	if m == nil {
		b.Take(claim)
		return
	}
	part, _ := a.letGo(m, claim.Resources, true)
	a.bearFruit(m)
	if !part.IsZero() {
		a.hold(m, part, false)
		a.launchSeen(m, part)
	}
	if !same(part, claim.Resources) { // it was never offered: count it all the same
		missing := claim
		missing.Resources, missing.Task = claim.Resources.Without(part), ""
		b.Take(missing)
	}
	b.preemptAgain(m)
	if !claim.Resources.IsZero() {
		b.countTask(a, m, claim, +1)
	}
	b.counted = b.kinds.count(b.counted, claim.Resources, nil)
	b.launched(a, m, claim.Resources, b.counted)
	if len(a.plans) > 0 && !a.hasOffer(m) {
		b.releasePlan(a, m)
	}
	b.forgive(m)
	b.addTask(a, m, claim)
	b.dirty.capped(b, a, m)
}

// Return frees what was taken by a proposal, Take or Launch.
func (b *Books) Return(claim allocator.Claim) {
	a, m := b.find(claim)
	if m == nil {
		return
	}
	offer := claim.Task == ""
	back, fruitful := a.letGo(m, claim.Resources, offer)
	b.counted = b.kinds.count(b.counted, back, nil)
	if offer && !back.IsZero() {
		b.answered(a, m, back, b.counted)
		b.untouched(a, m, fruitful)
	}
	if !same(back, claim.Resources) { // an executor's, or a task that was never launched
		rest, _ := a.letGo(m, claim.Resources.Without(back), !offer)
		back = back.Plus(rest)
		b.counted = b.kinds.count(b.counted, back, nil)
	}
	if back.IsZero() {
		return
	}
	if claim.Task != "" {
		b.filters.lift(b, a, m.framework)
	}
	b.removeTask(a, m, claim.Task)
	b.countTask(a, m, claim, -1)
	b.giveBack(a, m, back, b.counted)
	b.touchMember(m)
	b.loosen()
	b.dirty.agent(b, a)
	b.leave(m)
}

// answered notes that (part of) an offer came back.
func (b *Books) answered(a *agent, m *member, back api.Resources, counted amounts) {
	if len(a.plans) == 0 {
		return
	}
	b.unplan(a, m, back, counted)
	if !a.hasOffer(m) {
		b.releasePlan(a, m)
	}
}

// untouched notes when an offer came back with nothing launched.
func (b *Books) untouched(a *agent, m *member, fruitful bool) {
	b.back = back{}
	if !fruitful {
		b.back = back{a, m}
		b.strike(m)
		b.preemptLater(m)
	}
}

// takeAllOf returns all that the member holds on the agent.
func (b *Books) takeAllOf(a *agent, m *member) {
	b.dropTasks(a, m)
	b.dropCounts(a, m)
	all := a.letAllGo(m)
	b.releasePlan(a, m)
	b.counted = b.kinds.count(b.counted, all, nil)
	b.giveBack(a, m, all, b.counted)
	b.touchMember(m)
}

// giveBack makes free what a member has let go.
func (b *Books) giveBack(a *agent, m *member, back api.Resources, counted amounts) {
	b.charge(m, back, counted, -1)
	switch {
	case a.oversold:
		b.refree(a)
	case a.free.IsZero():
		b.setFree(a, back, counted)
	default:
		b.setFree(a, a.free.Plus(back), nil)
	}
}

// refree counts anew what is free, when more was taken than there was, or was given back.
func (b *Books) refree(a *agent) {
	free := a.spec.Total
	a.oversold = false
	for i := range a.held {
		a.oversold = a.oversold || !covers(free, a.held[i].resources)
		free = free.Without(a.held[i].resources)
	}
	b.setFree(a, free, nil)
}

// charge adds what a member takes (sign +1) or gives back (-1) to its sums, its
// framework's and those of the roles above.
func (b *Books) charge(m *member, held api.Resources, counted amounts, sign int64) {
	b.chargeCounted(m, counted, sign)
	items := held.Items()
	for i := range items {
		if item := &items[i]; item.Reserved != "" && !item.Revocable {
			b.idle(b.roleOf(item.Reserved), b.kinds.number(item.Name), -sign*sizeOf(item))
		}
	}
}

func (b *Books) chargeCounted(m *member, counted amounts, sign int64) {
	if sign < 0 {
		m.taken.sub(counted)
		m.framework.taken.sub(counted)
	} else {
		m.taken.add(counted)
		m.framework.taken.add(counted)
	}
	for r := m.role; r != nil; r = r.parent {
		if sign < 0 {
			r.taken.sub(counted)
		} else {
			r.taken.add(counted)
		}
		b.fill(r)
	}
	if m.role.promise.near {
		b.recountNeed(m.role)
	}
	if sign < 0 {
		b.uncut(m.role)
	}
}
