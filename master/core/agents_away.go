package core

import (
	"errors"
	"fmt"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/words"
	"github.com/tenderhq/tender/master/core/life"
	"github.com/tenderhq/tender/master/registry"
)

// Agents that are away: first the leader waits for them, then they are a TOMBSTONE, then overdue, then gone. After a
// failover all are away, and that holds roles back.

// declareDead makes a silent agent a TOMBSTONE. Its tasks are UNREACHABLE: they may come back with it.
func (r *agents) declareDead(a *agent) {
	a.enter(life.Tombstone)
	a.gone = "silent for " + r.config.TombstoneAfter.String() + ": " + a.gone
	for _, t := range a.sortedTasks() {
		r.unreachable(a, t)
	}
	r.markAcceptsLost(a)
	r.lost(a, a.gone)
	r.executors.clearExecutors(a)
	r.hold.settleHold(a)
	r.standing.restate(a)
	r.answers.answerQuestions(a)
	r.awaitReturn(a)
}

// unreachable gives the task's resources back and tells its framework.
func (r *agents) unreachable(a *agent, t *task) {
	r.tasks.releaseTask(t)
	switch {
	case t.duplicate, t.framework.removed:
		r.tasks.forgetTask(t)
	case t.status.State.Terminal(): // its end is known, only unacknowledged
	default:
		r.tasks.moveTask(t, api.Status{State: api.TaskUnreachable, Reason: api.ReasonAgentDisconnected,
			Message: "agent " + string(a.id) + " is " + a.gone})
		r.answers.tellTask(t, api.ReasonNone)
	}
}

// endAgent ends an agent that was marked gone or removed: neither it nor its tasks come back.
func (r *agents) endAgent(a *agent, why string) {
	if l := a.link; l != nil {
		r.dropLink(a, why)
		r.emit(ToAgent{Conn: l.conn, Session: a.session, Event: protocol.AgentGone{Why: why}})
		r.emit(CloseAgent{Conn: l.conn, Err: api.E("agent.session", api.Removed, a.id, errors.New(why))})
	}
	r.deadlines.Clear(a.clock)
	r.admitSuccessor(a) // to be told the same
	a.enter(life.Tombstone)
	a.gone = why
	for _, t := range a.sortedTasks() {
		r.goneByOperator(a, t, why)
	}
	r.markAcceptsLost(a)
	r.lost(a, why)
	r.executors.clearExecutors(a)
	r.hold.settleHold(a)
	r.standing.restate(a)
	r.answers.answerQuestions(a)
}

func (r *agents) goneByOperator(a *agent, t *task, why string) {
	r.tasks.releaseTask(t)
	if !t.duplicate {
		if !t.status.State.Terminal() { // an end that is known stands; it may be owed still
			r.tasks.moveTask(t, api.Status{State: api.TaskGoneByOperator, Reason: api.ReasonAgentGone, Message: "agent " + string(a.id) + ": " + why})
		}
		r.tasks.tellStatus(t.framework, t.status)
	}
	r.tasks.forgetTask(t)
}

// markAcceptsLost marks the accepts that wait for the registry: the policy is about to forget the agent, with what they
// hold of it.
func (r *agents) markAcceptsLost(a *agent) {
	for _, x := range a.accepts {
		x.lost = true
	}
}

// lost tells the frameworks that have something on the agent.
func (r *agents) lost(a *agent, why string) {
	concerned := make(map[api.FrameworkID]*framework)
	for _, t := range a.tasks { // order: irrelevant because it fills a map
		concerned[t.framework.id] = t.framework
	}
	for _, x := range a.executors { // order: irrelevant because it fills a map
		concerned[x.framework.id] = x.framework
	}
	for _, id := range sortedKeys(concerned) {
		r.tell(concerned[id], protocol.AgentLost{Agent: a.id, Why: why})
	}
}

// goneAfter is for how long an agent may be TOMBSTONE; negative = for ever.
func (r *agents) goneAfter(a *agent) time.Duration {
	for _, class := range r.config.GoneAfterOf {
		if a.info.Has(class.Attribute, class.Value) {
			return class.After
		}
	}
	return r.config.GoneAfter
}

// awaitReturn starts the time after which a TOMBSTONE is given up, if it ever is.
func (r *agents) awaitReturn(a *agent) {
	if after := r.goneAfter(a); after > 0 {
		r.deadlines.Set(a.clock, r.now.Add(after))
	} else {
		r.deadlines.Clear(a.clock)
	}
}

// giveUp lets an agent wait for its turn to be marked gone.
func (r *agents) giveUp(a *agent) {
	if a.phase != life.Overdue {
		a.enter(life.Overdue)
		r.overdue.Add(a.id)
	}
	r.markOverdue()
}

// markOverdue marks the agent gone whose turn has come.
func (r *agents) markOverdue() {
	turn := r.overdue.Next(r.now, r.isOverdue, r.countAway)
	if turn.Warn != "" {
		r.warn("agents are not marked gone", field("why", turn.Warn), field("first", turn.First))
	}
	if a := r.agentByID[turn.GiveUp]; a != nil {
		a.enter(life.Tombstone)
		why := "TOMBSTONE for " + r.goneAfter(a).String() + " (gone-after)"
		r.warn("agent is given up", field("agent", a.id), field("why", why))
		r.proposals.propose(registry.MarkAgent{ID: a.id, Set: api.MarkGone, Why: why})
	}
	if turn.Again.IsZero() {
		r.deadlines.Clear(r.goneTurn)
	} else {
		r.deadlines.Set(r.goneTurn, turn.Again)
	}
}

// isOverdue says that the agent waits to be marked gone.
func (r *agents) isOverdue(id api.AgentID) bool {
	a := r.agentByID[id]
	return a != nil && a.phase == life.Overdue
}

// countAway counts the agents that are not marked gone. Those that were drained and left did so on purpose, and are not
// away.
func (r *agents) countAway() (away, all int) {
	for _, a := range r.agentByID { // order: irrelevant because it counts
		marks := r.marks(a)
		if marks.Has(api.MarkGone) {
			continue
		}
		all++
		if a.link == nil && !marks.Has(api.MarkDrained) {
			away++
		}
	}
	return away, all
}

// hold keeps roles under a limit waiting after a failover, until the agents have told what runs (R20).
type hold struct {
	*base
	awaited  map[api.AgentID]bool // agents that have not reported
	deadline *deadline
}

// beginHold keeps roles under a limit waiting until the agents have told what runs (R20).
func (r *hold) beginHold() {
	if len(r.awaited) == 0 {
		return
	}
	r.policy.Hold(true)
	r.deadlines.Set(r.deadline, r.now.Add(r.config.RecoveryHold))
}

// holdDue ends the hold though some agents are not back.
func (r *hold) holdDue() {
	r.endHold(fmt.Sprintf("after %v the leader still missed %s", r.config.RecoveryHold, words.Count(len(r.awaited), "agent")))
}

// settleHold notes that the hold need not wait for this agent any more.
func (r *hold) settleHold(a *agent) {
	if !r.awaited[a.id] {
		return
	}
	delete(r.awaited, a.id)
	if len(r.awaited) == 0 && r.deadline.IsSet() {
		r.endHold("all agents have reported")
	}
}

func (r *hold) endHold(why string) {
	r.deadlines.Clear(r.deadline)
	clear(r.awaited)
	r.policy.Hold(false)
	r.info("recovery hold ended", Field{"why", why})
}

// holding says that the hold is on.
func (r *hold) holding() bool { return r.deadline.IsSet() }
