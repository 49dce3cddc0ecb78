package engine

import (
	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// ledger follows what the engine is told: it writes it into the books, and puts who it concerns in line or takes him out.
type ledger struct {
	*line
	again instant // after which the same is offered again to who gave it back untouched
	back  back
}

func newLedger(config allocator.Config, l *line) *ledger {
	again := instant(config.OfferAgain)
	if again <= 0 {
		again = instant(allocator.DefaultOfferAgain)
	}
	return &ledger{line: l, again: again}
}

// Take books resources that are in use but were not proposed.
func (e *ledger) Take(claim allocator.Claim) {
	a, f := e.agentOf(claim.Agent), e.frameworks[claim.Framework]
	if a == nil || f == nil || claim.Resources.IsZero() {
		return
	}
	m := e.memberOf(f, claim.Role)
	a.hold(m, claim.Resources, false, e.now)
	e.counted = e.kinds.count(e.counted, claim.Resources, nil)
	e.charge(m, claim.Resources, e.counted, +1)
	if covers(a.free, claim.Resources) {
		e.setFree(a, less(a.free, claim.Resources), nil)
	} else {
		e.refree(a)
	}
	if !a.plain && len(a.filters) > 0 { // another cut of what is left may not be hidden
		e.dirty.agent(a)
	}
	e.touchMember(m)
	e.addTask(a, m, claim)
	e.countTask(a, m, claim, +1)
	if claim.Task != "" {
		e.forgive(m)
	}
	e.loosen()
}

// Launch turns part of what an offer held into a task's claim.
func (e *ledger) Launch(claim allocator.Claim) {
	a, m := e.find(claim)
	if m == nil {
		e.Take(claim)
		return
	}
	before := a.offers
	part, _ := a.letGo(m, claim.Resources, true)
	e.keptOffers.open += a.offers - before
	a.bearFruit(m)
	if !part.IsZero() {
		a.hold(m, part, false, e.now)
		a.launchSeen(m, part)
	}
	if !same(part, claim.Resources) { // it was never offered: count it all the same
		missing := claim
		missing.Resources, missing.Task = claim.Resources.Without(part), ""
		e.Take(missing)
	}
	e.preemptAgain(m)
	if !claim.Resources.IsZero() {
		e.countTask(a, m, claim, +1)
	}
	e.counted = e.kinds.count(e.counted, claim.Resources, nil)
	e.launched(a, m, claim.Resources, e.counted)
	if len(a.plans) > 0 && !a.hasOffer(m) {
		e.releasePlan(a, m)
	}
	e.forgive(m)
	e.addTask(a, m, claim)
	e.dirty.capped(a, m)
}

// Return frees what was taken by a proposal, Take or Launch.
func (e *ledger) Return(claim allocator.Claim) {
	a, m := e.find(claim)
	if m == nil {
		return
	}
	offer := claim.Task == ""
	before := a.offers
	back, fruitful := a.letGo(m, claim.Resources, offer)
	e.counted = e.kinds.count(e.counted, back, nil)
	if offer && !back.IsZero() {
		e.answered(a, m, back, e.counted)
		e.untouched(a, m, fruitful)
	}
	if !same(back, claim.Resources) { // an executor's, or a task that was never launched
		rest, _ := a.letGo(m, claim.Resources.Without(back), !offer)
		back = back.Plus(rest)
		e.counted = e.kinds.count(e.counted, back, nil)
	}
	e.keptOffers.open += a.offers - before
	if back.IsZero() {
		return
	}
	if claim.Task != "" {
		e.filters.lift(e.books, a, m.framework)
	}
	e.removeTask(a, m, claim.Task)
	e.countTask(a, m, claim, -1)
	e.giveBack(a, m, back, e.counted)
	e.touchMember(m)
	e.loosen()
	e.dirty.agent(a)
	e.leave(m)
}

// answered notes that (part of) an offer came back.
func (e *ledger) answered(a *agent, m *member, back api.Resources, counted Amounts) {
	if len(a.plans) == 0 {
		return
	}
	e.unplan(a, m, back, counted)
	if !a.hasOffer(m) {
		e.releasePlan(a, m)
	}
}

// untouched notes when an offer came back with nothing launched.
func (e *ledger) untouched(a *agent, m *member, fruitful bool) {
	e.back = back{}
	if !fruitful {
		e.back = back{a, m}
		e.strike(m)
		e.preemptLater(m)
	}
}

// takeAllOf returns all that the member holds on the agent.
func (e *ledger) takeAllOf(a *agent, m *member) {
	e.dropTasks(a, m)
	e.dropCounts(a, m)
	before := a.offers
	all := a.letAllGo(m)
	e.keptOffers.open += a.offers - before
	e.releasePlan(a, m)
	e.counted = e.kinds.count(e.counted, all, nil)
	e.giveBack(a, m, all, e.counted)
	e.touchMember(m)
}

// giveBack makes free what a member has let go.
func (e *books) giveBack(a *agent, m *member, back api.Resources, counted Amounts) {
	e.charge(m, back, counted, -1)
	switch {
	case a.oversold:
		e.refree(a)
	case a.free.IsZero():
		e.setFree(a, back, counted)
	default:
		e.setFree(a, a.free.Plus(back), nil)
	}
}

// refree counts anew what is free, when more was taken than there was, or was given back.
func (e *books) refree(a *agent) {
	free := a.spec.Total
	a.oversold = false
	for i := range a.held {
		a.oversold = a.oversold || !covers(free, a.held[i].resources)
		free = free.Without(a.held[i].resources)
	}
	e.setFree(a, free, nil)
}

// charge adds what a member takes (sign +1) or gives back (-1) to its sums, its
// framework's and those of the roles above.
func (e *books) charge(m *member, held api.Resources, counted Amounts, sign int64) {
	e.chargeCounted(m, counted, sign)
	items := held.Items()
	for i := range items {
		if item := &items[i]; item.Reserved != "" && !item.Revocable {
			e.idle(e.roleOf(item.Reserved), e.kinds.number(item.Name), -sign*sizeOf(item))
		}
	}
}

func (e *books) chargeCounted(m *member, counted Amounts, sign int64) {
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
		e.fill(r)
	}
	if m.role.promise.near {
		e.recountNeed(m.role)
	}
	if sign < 0 {
		e.uncut(m.role)
	}
}

// Hold stops offers to roles under a limit, and preemption, while on (R20).
func (e *ledger) Hold(on bool) {
	if e.hold == on {
		return
	}
	e.hold = on
	if !on {
		e.dirty.everything(e.agents)
	}
}
