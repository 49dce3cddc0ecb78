package core

import (
	"container/heap"
	"time"
)

// deadline is one moment at which there is something to decide. It lives in its
// owner; setting it again moves it.
type deadline struct {
	at    time.Time
	order uint64 // of setting, so that equal moments come in that order
	place int    // in the heap from 1; 0 = not set
	due   due
}

func newDeadline(what due) *deadline { return &deadline{due: what} }

// due says what is to be decided at a deadline, and about whom.
//
//sumtype:decl
type due interface{ due() }

// What can be due.
type (
	// agentSilent: nothing was heard of an agent for long enough to judge its stream, then its life, then its place.
	agentSilent struct{ agent *agent }
	// predecessorSilent: an agent's older stream had time enough to answer while its successor waits.
	predecessorSilent struct{ agent *agent }
	// usageOutdated: an agent's last sample of what its tasks use says nothing any more.
	usageOutdated struct{ agent *agent }
	// maintenanceTurn: an agent's maintenance begins, or ends.
	maintenanceTurn struct{ agent *agent }
	// goneTurn: the agent that is away for longest may be marked gone.
	goneTurn struct{}
	// sessionSilent: nothing was heard of a scheduler for long enough to judge its stream.
	sessionSilent struct{ session *session }
	// failoverOver: a framework without a scheduler has waited for one long enough.
	failoverOver struct{ framework *framework }
	// placeFree: the last active instance of a standby framework may no longer come back to its place.
	placeFree struct{ framework *framework }
	// inverseOver: an inverse offer was open for as long as it may be.
	inverseOver struct{ inverse *inverse }
	// holdOver: the recovery hold has lasted for as long as it may.
	holdOver struct{}
	// expiryTurn: what the registry remembers of the past is looked at.
	expiryTurn struct{}
)

func (agentSilent) due()       {}
func (predecessorSilent) due() {}
func (usageOutdated) due()     {}
func (maintenanceTurn) due()   {}
func (goneTurn) due()          {}
func (sessionSilent) due()     {}
func (failoverOver) due()      {}
func (placeFree) due()         {}
func (inverseOver) due()       {}
func (holdOver) due()          {}
func (expiryTurn) due()        {}

// judgesLife says whether a deadline is about somebody being alive. Such deadlines move when the loop was away, for it
// heard nobody meanwhile. (Protocol rule R23.)
func judgesLife(what due) bool {
	switch what.(type) {
	case agentSilent, predecessorSilent, usageOutdated, goneTurn, sessionSilent, failoverOver, placeFree:
		return true
	case maintenanceTurn, inverseOver, holdOver, expiryTurn:
		return false
	}
	return false
}

// decideDue does what was to be done at a deadline.
func (c *Core) decideDue(what due) {
	switch what := what.(type) {
	case agentSilent:
		c.agents.agentDue(what.agent)
	case predecessorSilent:
		c.agents.endPredecessor(what.agent)
	case usageOutdated:
		c.usage.closeGap(what.agent, "its last sample of what is used is older than two heartbeats")
	case maintenanceTurn:
		c.maintenance.maintenanceDue(what.agent)
	case goneTurn:
		c.agents.overdue.markOverdue()
	case sessionSilent:
		c.sessions.sessionDue(what.session)
	case failoverOver:
		c.sessions.failoverDue(what.framework)
	case placeFree:
		c.sessions.nextStandby(what.framework.info.Name)
	case inverseOver:
		c.inverses.inverseDue(what.inverse)
	case holdOver:
		c.agents.hold.holdDue()
	case expiryTurn:
		c.expiry.expire()
	}
}

// deadlines are a heap by moment.
type deadlines struct {
	heap  deadlineHeap
	count uint64
}

// set arms a deadline, or moves an armed one.
func (d *deadlines) set(x *deadline, at time.Time) {
	d.count++
	x.at, x.order = at, d.count
	if x.place == 0 {
		heap.Push(&d.heap, x)
	} else {
		heap.Fix(&d.heap, x.place-1)
	}
}

// clear disarms it; one that is not armed stays so.
func (d *deadlines) clear(x *deadline) {
	if x.place != 0 {
		heap.Remove(&d.heap, x.place-1)
	}
}

// next is the earliest moment, zero for none.
func (d *deadlines) next() time.Time {
	if len(d.heap) == 0 {
		return time.Time{}
	}
	return d.heap[0].at
}

// shift moves all that judge someone's life.
func (d *deadlines) shift(gap time.Duration) {
	for _, x := range d.heap {
		if judgesLife(x.due) {
			x.at = x.at.Add(gap)
		}
	}
	heap.Init(&d.heap)
}

type deadlineHeap []*deadline

func (h deadlineHeap) Len() int { return len(h) }

func (h deadlineHeap) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].order < h[j].order
	}
	return h[i].at.Before(h[j].at)
}

func (h deadlineHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i+1, j+1
}

func (h *deadlineHeap) Push(x any) {
	item, _ := x.(*deadline)
	*h = append(*h, item)
	item.place = len(*h)
}

func (h *deadlineHeap) Pop() any {
	last := len(*h) - 1
	item := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	item.place = 0
	return item
}

// Deadlines are moments of the time that passes: with their monotonic part, so that they stay where they are in order
// when somebody sets the wall clock. What is planned for a moment of the calendar, such as maintenance, is converted when
// its deadline is set, and anew when the clock was set. (Protocol rule R23.)
type calendar struct {
	began time.Time     // of this leadership
	set   time.Duration // how far the wall clock was set since then, forward or back
	doubt time.Time     // until then nothing begins by a clock that was set: it may be set back
}

const (
	// clockSetMin is the least difference that counts as a clock that was set. A clock that is moved little by little
	// moves the monotonic time with it.
	clockSetMin = time.Second
	// clockDoubt is for how long a clock must show a time before something begins for it.
	clockDoubt = time.Minute
)

// look compares the wall clock with the time that has passed, and returns how far it was set since the last look.
func (c *calendar) look(now time.Time) time.Duration {
	set := now.Round(0).Sub(c.began.Round(0)) - now.Sub(c.began)
	by := set - c.set
	if by.Abs() < clockSetMin {
		return 0
	}
	c.set, c.doubt = set, now.Add(clockDoubt)
	return by
}

// moment is when a moment of the calendar comes; no sooner than a clock that was set is believed.
func (b *base) moment(at time.Time) time.Time {
	return b.now.Add(max(b.until(at), b.calendar.doubt.Sub(b.now)))
}

// until is how long it is to a moment of the calendar, by the wall clock.
func (b *base) until(at time.Time) time.Duration { return at.Sub(b.now.Round(0)) }

// soonest is the earliest of the moments; those that are zero do not count.
func soonest(moments ...time.Time) time.Time {
	var first time.Time
	for _, at := range moments {
		if !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// woken decides all that is due. What it sets again for the same moment waits for the
// next time, so that one step always ends.
func (c *Core) woken() {
	for range len(c.deadlines.heap) {
		if next := c.deadlines.next(); next.IsZero() || next.After(c.now) {
			break
		}
		x := c.deadlines.heap[0]
		c.deadlines.clear(x)
		c.decideDue(x.due)
	}
	c.offers.expireOffers()
}

// away moves the deadlines that are about others being alive: the loop did not listen, so their silence means nothing.
// (Protocol rule R23.)
func (c *Core) away(gap time.Duration) {
	c.deadlines.shift(gap)
	for _, a := range c.agentByID { // order: irrelevant because each is moved alone
		a.seen = a.seen.Add(gap)
	}
	for _, s := range c.sessionByConn { // order: irrelevant because each is moved alone
		s.seen = s.seen.Add(gap)
	}
	for _, fw := range c.frameworkByID { // order: irrelevant because each is moved alone
		fw.place = fw.place.Add(gap)
	}
	c.info("loop was away", field("gap", gap.String()))
}
