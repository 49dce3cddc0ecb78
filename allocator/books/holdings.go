package books

import (
	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// holding is what a member holds on an agent: open offers, tasks and executors.
// Holds: an agent's free and held resources are its total, unless it is oversold.
type holding struct {
	member   int32
	fruitful bool // something was launched since the last offer
	held     api.Resources
	offered  amounts // the part in open offers
	plan     []planned
}

// holdingOf is where the member's holding stands, or -1.
func (a *agent) holdingOf(m *member) int {
	for i := range a.held {
		if a.held[i].member == m.number {
			return i
		}
	}
	return -1
}

// hold finds or makes the member's holding.
func (b *Books) holdOf(a *agent, m *member) *holding {
	if at := a.holdingOf(m); at >= 0 {
		return &a.held[at]
	}
	m.holdings++
	if n := len(a.held); n < cap(a.held) { // its memory is used again
		a.held = a.held[:n+1]
		h := &a.held[n]
		*h = holding{member: m.number, offered: h.offered[:0], plan: h.plan[:0]}
		return h
	}
	a.held = append(a.held, holding{member: m.number})
	return &a.held[len(a.held)-1]
}

// unhold forgets a holding that is empty.
func (b *Books) unhold(a *agent, at int) {
	h := &a.held[at]
	m := b.members[h.member]
	b.releasePlan(m, h)
	last := len(a.held) - 1
	a.held[at], a.held[last] = a.held[last], a.held[at]
	a.held[last].held = api.Resources{}
	a.held = a.held[:last]
	m.holdings--
}

// Take books resources that are in use but were not proposed.
func (b *Books) Take(claim allocator.Claim) {
	a, f := b.agentOf(claim.Agent), b.frameworks[claim.Framework]
	if a == nil || f == nil || claim.Resources.IsZero() {
		return
	}
	m := b.memberOf(f, claim.Role)
	h := b.holdOf(a, m)
	h.held = h.held.Plus(claim.Resources)
	b.charge(m, claim.Resources, +1)
	if covers(a.free, claim.Resources) {
		b.setFree(a, less(a.free, claim.Resources), nil)
	} else {
		b.refree(a)
	}
	b.touchMember(m)
	b.addTask(a, m, claim)
	b.loosen()
}

// Launch turns part of what an offer held into a task's claim.
func (b *Books) Launch(claim allocator.Claim) {
	a, m := b.find(claim)
	if m == nil {
		b.Take(claim)
		return
	}
	at := a.holdingOf(m)
	if at < 0 || !covers(a.held[at].held, claim.Resources) {
		b.Take(claim)
		return
	}
	h := &a.held[at]
	h.fruitful = true
	b.preemptAgain(m)
	b.counted = b.kinds.count(b.counted, claim.Resources, nil)
	h.offered.cap(b.counted)
	b.launched(m, h, b.counted)
	if h.offered.zero() {
		b.releasePlan(m, h)
	}
	b.forgive(m)
	b.addTask(a, m, claim)
	b.dirty.capped(b, a, m)
	if a.use != nil {
		b.setFree(a, a.free, nil)
	}
}

// Return frees what was taken by a proposal, Take or Launch.
func (b *Books) Return(claim allocator.Claim) {
	a, m := b.find(claim)
	if m == nil {
		return
	}
	at := a.holdingOf(m)
	if at < 0 {
		return
	}
	h := &a.held[at]
	back := claim.Resources
	if !covers(h.held, back) {
		back = h.held.Intersect(back)
	}
	if claim.Task == "" {
		b.counted = b.kinds.count(b.counted, back, nil)
		b.unoffer(m, h, b.counted)
	}
	b.removeTask(a, m, claim.Task)
	b.giveBack(a, m, back)
	b.touchMember(m)
	b.loosen()
	b.dirty.agent(b, a)
	b.leave(m)
}

// unoffer notes that (part of) an offer came back.
func (b *Books) unoffer(m *member, h *holding, counted amounts) {
	if h.offered.zero() {
		return // an executor's
	}
	if !h.fruitful {
		b.strike(m)
		b.preemptLater(m)
	}
	h.offered.cap(counted)
	b.unplan(m, h, counted)
	if h.offered.zero() {
		b.releasePlan(m, h)
	}
}

// giveBack moves resources from a member's holding to what is free.
func (b *Books) giveBack(a *agent, m *member, back api.Resources) {
	at := a.holdingOf(m)
	h := &a.held[at]
	h.held = less(h.held, back)
	if h.held.IsZero() {
		b.unhold(a, at)
	}
	counted := b.charge(m, back, -1)
	switch {
	case a.oversold:
		b.refree(a)
	case a.free.IsZero():
		b.setFree(a, back, counted)
	default:
		b.setFree(a, a.free.Plus(back), nil)
	}
}

// refree counts anew what is free, when more was taken than there was or was given back.
func (b *Books) refree(a *agent) {
	free := a.spec.Total
	a.oversold = false
	for i := range a.held {
		a.oversold = a.oversold || !covers(free, a.held[i].held)
		free = free.Without(a.held[i].held)
	}
	b.setFree(a, free, nil)
}

// charge adds what a member takes (sign +1) or gives back (-1) to its sums, its
// framework's and those of the roles above. It returns the amounts, valid until the
// next count.
func (b *Books) charge(m *member, held api.Resources, sign int64) amounts {
	b.counted = b.kinds.count(b.counted, held, nil)
	b.chargeCounted(m, b.counted, sign)
	for _, item := range held.Items() {
		if item.Reserved != "" && !item.Revocable {
			b.idle(b.roleOf(item.Reserved), b.kinds.number(item.Name), -sign*size(item))
		}
	}
	return b.counted
}

func (b *Books) chargeCounted(m *member, counted amounts, sign int64) {
	change := (*amounts).add
	if sign < 0 {
		change = (*amounts).sub
	}
	change(&m.taken, counted)
	change(&m.framework.taken, counted)
	for r := m.role; r != nil; r = r.parent {
		change(&r.taken, counted)
	}
	if m.role.promise.near {
		b.recountNeed(m.role)
	}
	if sign < 0 {
		b.uncut(m.role)
	}
}
