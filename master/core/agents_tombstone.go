package core

import (
	"errors"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/core/life"
)

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
	r.overdue.awaitReturn(a)
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
	r.deadlines.clear(a.clock)
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
