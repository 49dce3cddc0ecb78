package core

import (
	"errors"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// entomb takes a silent agent for dead. Its tasks are UNREACHABLE: they may come back
// with it.
func (c *Core) entomb(a *agent) {
	a.enter(phaseTombstone)
	a.gone = "silent for " + c.config.TombstoneAfter.String() + ": " + a.gone
	for _, t := range a.sortedTasks() {
		c.unreachable(a, t)
	}
	c.loseAccepts(a)
	c.lost(a, a.gone)
	c.clearExecutors(a)
	c.settleHold(a)
	c.restate(a)
	c.answerQuestions(a)
	c.awaitReturn(a)
}

// unreachable gives the task's resources back and tells its framework.
func (c *Core) unreachable(a *agent, t *task) {
	c.releaseTask(t)
	switch {
	case t.duplicate, t.framework.removed:
		c.forgetTask(t)
	case t.status.State.Terminal(): // its end is known, only unacknowledged
	default:
		c.moveTask(t, api.Status{State: api.TaskUnreachable, Reason: api.ReasonAgentDisconnected,
			Message: "agent " + string(a.id) + " is " + a.gone})
		c.tellTask(t, api.ReasonNone)
	}
}

// buryAgent ends all hope for an agent: it was marked gone or removed.
func (c *Core) buryAgent(a *agent, why string) {
	if l := a.link; l != nil {
		c.dropLink(a, why)
		c.emit(ToAgent{Conn: l.conn, Session: a.session, Event: protocol.AgentGone{Why: why}})
		c.emit(CloseAgent{Conn: l.conn, Err: api.E("agent.session", api.Removed, a.id, errors.New(why))})
	}
	c.deadlines.clear(a.clock)
	c.admitSuccessor(a) // to be told the same
	a.enter(phaseTombstone)
	a.gone = why
	for _, t := range a.sortedTasks() {
		c.goneByOperator(a, t, why)
	}
	c.loseAccepts(a)
	c.lost(a, why)
	c.clearExecutors(a)
	c.settleHold(a)
	c.restate(a)
	c.answerQuestions(a)
}

func (c *Core) goneByOperator(a *agent, t *task, why string) {
	c.releaseTask(t)
	if !t.duplicate {
		if !t.status.State.Terminal() { // an end that is known stands; it may be owed still
			c.moveTask(t, api.Status{State: api.TaskGoneByOperator, Reason: api.ReasonAgentGone, Message: "agent " + string(a.id) + ": " + why})
		}
		c.tellStatus(t.framework, t.status)
	}
	c.forgetTask(t)
}

// loseAccepts: the policy is about to forget the agent, with what waiting accepts hold.
func (c *Core) loseAccepts(a *agent) {
	for _, x := range a.accepts {
		x.lost = true
	}
}

// lost tells the frameworks that have something on the agent.
func (c *Core) lost(a *agent, why string) {
	concerned := make(map[api.FrameworkID]*framework)
	for _, t := range a.tasks { // order: irrelevant because it fills a map
		concerned[t.framework.id] = t.framework
	}
	for _, x := range a.executors { // order: irrelevant because it fills a map
		concerned[x.framework.id] = x.framework
	}
	for _, id := range sortedKeys(concerned) {
		c.tell(concerned[id], protocol.AgentLost{Agent: a.id, Why: why})
	}
}
