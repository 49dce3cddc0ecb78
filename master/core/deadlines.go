package core

import (
	"time"

	"github.com/tenderhq/tender/internal/alarms"
)

// deadline is one moment at which there is something to decide. It lives in its owner; setting it again moves it.
//
// Deadlines are moments of the time that passes: with their monotonic part, so that they stay where they are in order
// when somebody sets the wall clock. What is planned for a moment of the calendar, such as maintenance, is converted when
// its deadline is set, and anew when the clock was set. (Protocol rule R23.)
type deadline = alarms.Alarm[due]

func newDeadline(what due) *deadline { return alarms.Of(what) }

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
		c.agents.markOverdue()
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
		c.forgetPast()
	}
}

// moment is when a moment of the calendar comes.
func (b *base) moment(at time.Time) time.Time { return b.calendar.Moment(b.now, at) }

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
	for range c.deadlines.Len() {
		what, is := c.deadlines.Due(c.now)
		if !is {
			break
		}
		c.decideDue(what)
	}
	c.offers.expireOffers()
}

// away moves the deadlines that are about others being alive: the loop did not listen, so their silence means nothing.
// (Protocol rule R23.)
func (c *Core) away(gap time.Duration) {
	c.deadlines.Shift(gap, judgesLife)
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
