package core

import (
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/alarms"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/core/admission"
	"github.com/tenderhq/tender/master/core/settings"
	"github.com/tenderhq/tender/master/registry"
)

// This file holds what is under way: what is due at a time, and what continues when the registry answers. Both are
// closed sets of values that name what they are about, and each is handled by one switch.

// deadline is a time at which something is to be decided. Its owner keeps it; setting it again moves it.
//
// Deadlines are monotonic times, so that their order does not change when somebody sets the wall clock. What is planned
// for a time of the wall clock, such as maintenance, is converted when its deadline is set, and again when the clock
// was set. (Protocol rule R23.)
type deadline = alarms.Alarm[due]

func newDeadline(what due) *deadline { return alarms.Of(what) }

// due says what is to be decided at a deadline, and about what.
//
//sumtype:decl
type due interface{ decide(c *Core) }

// What can be due.
type (
	// agentSilent: an agent was silent for the time after which its stream is closed, it is taken for dead, or it is to
	// be marked gone.
	agentSilent struct{ agent *agent }
	// predecessorSilent: an agent's older stream has not answered in time while its successor waits.
	predecessorSilent struct{ agent *agent }
	// usageOutdated: an agent's last usage sample is too old to count.
	usageOutdated struct{ agent *agent }
	// maintenanceTurn: an agent's maintenance begins, or ends.
	maintenanceTurn struct{ agent *agent }
	// goneTurn: the agent that has waited longest for it may be marked gone.
	goneTurn struct{}
	// sessionSilent: a scheduler may have been silent for the session timeout.
	sessionSilent struct{ session *session }
	// failoverOver: the failover time of a framework without a scheduler is over.
	failoverOver struct{ framework *framework }
	// placeFree: the last active instance of a standby framework may no longer come back to its place.
	placeFree struct{ framework *framework }
	// inverseOver: the deadline of an inverse offer has come.
	inverseOver struct{ inverse *inverse }
	// holdOver: the longest time of the recovery hold is over.
	holdOver struct{}
	// expiryTurn: the registry is searched for what it may forget.
	expiryTurn struct{}
	// accountsDue: the accounts of who uses how much are closed, and the registry is told.
	accountsDue struct{}
)

func (d agentSilent) decide(c *Core)       { c.agents.agentDue(d.agent) }
func (d predecessorSilent) decide(c *Core) { c.agents.endPredecessor(d.agent) }
func (d maintenanceTurn) decide(c *Core)   { c.maintenance.maintenanceDue(d.agent) }
func (goneTurn) decide(c *Core)            { c.agents.markOverdue() }
func (d sessionSilent) decide(c *Core)     { c.sessions.sessionDue(d.session) }
func (d failoverOver) decide(c *Core)      { c.sessions.failoverDue(d.framework) }
func (d placeFree) decide(c *Core)         { c.sessions.nextStandby(d.framework.info.Name) }
func (d inverseOver) decide(c *Core)       { c.inverses.inverseDue(d.inverse) }
func (holdOver) decide(c *Core)            { c.agents.hold.holdDue() }
func (expiryTurn) decide(c *Core)          { c.forgetPast() }
func (accountsDue) decide(c *Core)         { c.recordUsage() }

func (d usageOutdated) decide(c *Core) {
	c.usage.closeGap(d.agent, "its last sample of what is used is older than two heartbeats")
}

// judgesLife reports whether a deadline decides about somebody who was silent. Such deadlines are moved when the loop
// did not run, because it could hear nobody in that time. (Protocol rule R23.)
func judgesLife(what due) bool {
	switch what.(type) {
	case agentSilent, predecessorSilent, usageOutdated, goneTurn, sessionSilent, failoverOver, placeFree:
		return true
	case maintenanceTurn, inverseOver, holdOver, expiryTurn, accountsDue:
		return false
	}
	return false
}

// moment converts a time of the wall clock to the time at which it will come.
func (b *base) moment(at time.Time) time.Time { return b.calendar.Moment(b.now, at) }

// soonest returns the earliest of the times; zero times do not count.
func soonest(moments ...time.Time) time.Time {
	var first time.Time
	for _, at := range moments {
		if !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// woken decides everything that is due. A deadline that is set again for the same time waits for the next call, so that
// a step always ends.
func (c *Core) woken() {
	for range c.deadlines.Len() {
		what, is := c.deadlines.Due(c.now)
		if !is {
			break
		}
		what.decide(c)
	}
	c.offers.expireOffers()
}

// away moves the deadlines that judge silence by the time that the loop did not run. The loop heard nobody in that
// time, so their silence means nothing. (Protocol rule R23.)
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

// proposals keeps the commands that are on their way to the quorum, and what continues when they are answered. It
// numbers them (R17); the core does the continuing.
type proposals struct {
	*base
	pending map[proposalKey]proposal // commands whose outcome is not known yet
	count   uint64                   // how many were proposed in this term
}

// proposalKey is the identity of a command (R17).
type proposalKey struct {
	client  string
	counter uint64
}

// proposal is a command on its way to the quorum, and what continues with its result: one entry for each party that has
// asked for the command under this identity.
type proposal struct {
	follows []follows
	by      change.Actor // who caused it
}

// follows says what continues when the registry has answered a proposal, and for whom.
type follows interface {
	goOn(c *Core, result registry.Result)
}

// What can continue.
type (
	// greetAgent: an agent's stream waits until the agent is admitted or its description is updated.
	greetAgent struct {
		link     *link
		greeting admission.Greeting
		updated  *agent // nil: it is to be admitted
	}
	// markDrained: a draining agent has become empty.
	markDrained struct{ agent *agent }
	// turnMaintenance: an agent's maintenance begins, ends, or is put off.
	turnMaintenance struct{ agent *agent }
	// endAgent: an agent is to be marked gone or removed.
	endAgent struct{ agent *agent }
	// readmitFramework: an agent has reported a framework that the registry does not know.
	readmitFramework struct{ framework *framework }
	// openSession: a scheduler's stream waits for admission. The identity is the one under which it stood in line.
	openSession struct {
		session  *session
		identity string
	}
	// endFailover: a framework's scheduler stayed away for too long, so the framework is to be removed.
	endFailover struct{ framework *framework }
	// tearDown: a scheduler has asked for the removal of its framework.
	tearDown struct {
		session *session
		call    uint64
	}
	// updateFramework: a scheduler has asked to change the description of its framework.
	updateFramework struct {
		session *session
		call    uint64
	}
	// reserveForAccept: an accept waits for the change of what is reserved.
	reserveForAccept struct{ acceptance *acceptance }
	// reserveForOperator: an operator waits for the change of what is reserved.
	reserveForOperator struct {
		request RequestID
		agent   api.AgentID
		action  ReserveOn
	}
	// answerOperator: an operator waits for the sentence in done, or for an error.
	answerOperator struct {
		request     RequestID
		op, subject string // used in the error
		done        string
	}
	// answerSetting: an operator waits for a setting, which is asked for again if what has changed since is not what he
	// sets.
	answerSetting struct {
		request RequestID
		setting settings.Setting
		by      rights.Scope
		asked   settings.Question
	}
	// keepKill: operators wait until the registry keeps their kill of a task whose agent is away.
	keepKill struct {
		task    api.TaskRef
		waiting []RequestID
	}
	// answerWriter: a scheduler waits for the result of a write to its store.
	answerWriter struct{ request RequestID }
	// usageRecorded: the next record of what was used waits for this one.
	usageRecorded struct{}
)

func (f greetAgent) goOn(c *Core, result registry.Result) { c.agents.greeted(f, result) }

func (f markDrained) goOn(c *Core, result registry.Result) {
	c.maintenance.drainedAnswered(f.agent, result)
}

func (f turnMaintenance) goOn(c *Core, result registry.Result) {
	c.maintenance.maintenanceTurned(f.agent, result)
}

func (f endAgent) goOn(c *Core, result registry.Result)    { c.agents.endAnswered(f.agent, result) }
func (f openSession) goOn(c *Core, result registry.Result) { c.sessions.subscribeAnswered(f, result) }

func (f endFailover) goOn(c *Core, result registry.Result) {
	c.sessions.failoverAnswered(f.framework, result)
}

func (f tearDown) goOn(c *Core, result registry.Result) {
	c.sessions.teardownAnswered(f.session, f.call, result)
}

func (f answerOperator) goOn(c *Core, result registry.Result) { c.operatorAnswered(f, result) }
func (f answerSetting) goOn(c *Core, result registry.Result)  { c.settingAnswered(f, result) }
func (f keepKill) goOn(c *Core, result registry.Result)       { c.kills.kept(f, result) }
func (usageRecorded) goOn(c *Core, result registry.Result)    { c.usageAnswered(result) }

func (f readmitFramework) goOn(c *Core, result registry.Result) {
	c.sessions.readmitAnswered(f.framework, result)
}

func (f updateFramework) goOn(c *Core, result registry.Result) {
	c.sessions.updateAnswered(f.session, f.call, result)
}

func (f reserveForAccept) goOn(c *Core, result registry.Result) {
	c.operations.reserveAnswered(f.acceptance, result)
}

func (f reserveForOperator) goOn(c *Core, result registry.Result) { c.reservedByOperator(f, result) }

func (f answerWriter) goOn(c *Core, result registry.Result) {
	c.emit(Reply{ID: f.request, Answer: result, Err: result.Err})
}

// propose asks the quorum for a change under the leader's own identity.
func (r *proposals) propose(change registry.Change, then ...follows) {
	r.count++
	r.proposeAs(r.config.Client, r.count, change, then...)
}

// proposeAs proposes a change under a client's identity. A second proposal of the same identity joins the first, and
// both get the result.
func (r *proposals) proposeAs(client string, counter uint64, change registry.Change, then ...follows) {
	key := proposalKey{client, counter}
	if first, ok := r.pending[key]; ok {
		first.follows = append(first.follows, then...)
		r.pending[key] = first
		return
	}
	command := registry.Command{Client: client, Counter: counter, At: r.now, Change: change}
	r.pending[key] = proposal{then, r.by}
	r.emit(Propose{Command: command})
}

// committed applies the commands that the quorum has committed, whoever proposed them.
func (c *Core) committed(event Committed) {
	if event.Index != 0 && event.Index <= c.registry.Index {
		return // the registry that New was given includes it
	}
	for _, command := range event.Commands {
		c.applyCommand(command)
	}
	c.registry.Index = max(c.registry.Index, event.Index)
}

func (c *Core) applyCommand(command registry.Command) {
	key := proposalKey{command.Client, command.Counter}
	mine := c.proposals.settle(key)
	c.by = mine.by
	grant, again := command.Change.(registry.Grant)
	// A grant that is given a second time is no event: whoever takes back what has happened would take the first one away.
	again = again && slices.Contains(c.registry.Principals[grant.Principal].Grants, grant.Grant)
	result := c.registry.Apply(command)
	if result.Err == nil && !again {
		c.applied(command.Change, result)
	}
	for _, what := range mine.follows {
		what.goOn(c, result)
	}
}

// settle takes out a proposal whose outcome is known; nothing waits for one that this leader has not made.
func (r *proposals) settle(key proposalKey) proposal {
	mine := r.pending[key]
	delete(r.pending, key)
	return mine
}

// proposalRefused tells whoever waits for a command that it was never proposed.
func (c *Core) proposalRefused(event ProposalRefused) {
	refused := c.proposals.settle(proposalKey{event.Client, event.Counter})
	c.by = refused.by
	for _, what := range refused.follows {
		what.goOn(c, registry.Result{Err: event.Err})
	}
}

// applied brings the rooms in line with a change that the registry has accepted.
func (c *Core) applied(done registry.Change, result registry.Result) {
	switch done := done.(type) {
	case registry.AdmitAgent:
		c.agents.agentAdmitted(result.Agent)
	case registry.UpdateAgent:
		c.note(change.Record{Kind: change.Agent, What: change.Updated, Agent: done.Agent.ID, Set: done.Agent})
		c.inventory.agentChanged(done.Agent.ID)
	case registry.SetReserved:
		c.note(change.Record{Kind: change.Reservation, What: change.Set, Agent: done.ID, Framework: done.Framework, Why: done.Reserved.String()})
		c.operations.reservationApplied(done.ID)
	case registry.DestroyOrphan:
		c.inventory.orphanDestroyed(done)
	case registry.KeepKill:
		c.kills.killKept(done)
	case registry.VolumeGone:
		c.inventory.volumeGone(done)
	case registry.SetMaster:
		c.mastersAt++ // sessions are told with their next heartbeat
		c.note(change.Record{Kind: change.Master, What: change.Set, Name: string(done.ID)})
	case registry.RemoveMaster:
		c.mastersAt++
		c.note(change.Record{Kind: change.Master, What: change.Removed, Name: string(done.ID)})
	case registry.MarkAgent:
		c.agents.agentMarked(done.ID)
	case registry.SetMaintenance:
		for _, id := range done.Agents {
			c.agents.maintenanceChanged(id)
		}
	case registry.BeginMaintenance:
		c.note(change.Record{Kind: change.Maintenance, What: change.Begun, Agent: done.ID})
		c.agents.maintenanceChanged(done.ID)
	case registry.RemoveAgent:
		c.agents.agentRemoved(done.ID, "removed by an operator")
	case registry.Subscribe, registry.Readmit, registry.UpdateFramework:
		c.sessions.frameworkAdmitted(result.Framework)
	case registry.RemoveFramework:
		c.sessions.frameworkRemoved(done.ID)
	case registry.SetRole:
		c.offers.roleChanged(done.Role)
	case registry.Expire:
		c.agents.goneForgotten()
	case registry.Grant, registry.TakeGrant, registry.RevokePrincipal:
		c.rightsChanged(done)
	case registry.BeginReceipts:
		c.receiptsBegun()
	case registry.OnlyKept: // nothing else changes
		c.noteKept(done)
	}
}

// rightsChanged tells agents, which ask the master once about each of their callers, that a caller may do more or less.
func (c *Core) rightsChanged(done registry.Change) {
	switch done := done.(type) {
	case registry.Grant:
		c.note(change.Record{Kind: change.Principal, What: change.Granted, Name: done.Principal, Set: done.Grant, Why: "may " + done.Grant.String()})
		if c.agents.views(done.Principal) {
			c.agents.tellAll(protocol.PrincipalChanged{Principal: done.Principal, Views: true})
		}
	case registry.TakeGrant:
		c.note(change.Record{Kind: change.Principal, What: change.Taken, Name: done.Principal, Set: done.Grant, Why: "may no more " + done.Grant.String()})
		c.agents.tellAll(protocol.PrincipalChanged{Principal: done.Principal, Until: c.now, Views: c.agents.views(done.Principal)})
	case registry.RevokePrincipal:
		c.note(change.Record{Kind: change.Principal, What: change.Revoked, Name: done.Principal, Why: done.Why})
		c.agents.tellAll(protocol.PrincipalChanged{Principal: done.Principal, Until: c.now, Revoked: true})
		c.revokeTokens()
	default: // the others change no rights
	}
}
