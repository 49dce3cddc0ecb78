package core

import (
	"errors"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// kill is the wish that a task ends. It is sent again to an agent that comes back.
type kill struct {
	grace  time.Duration
	reason api.Reason
}

// killCalled is a scheduler's wish. The SDK repeats it in every session until the task
// is terminal or unknown (R12).
func (c *Core) killCalled(s *session, number uint64, call protocol.Kill) {
	const op = "framework.kill"
	t := s.framework.tasks[call.Task]
	if x := s.waits[call.Task]; t == nil && x != nil { // it is launched, if at all, once the registry agrees
		x.kills[call.Task] = call
		return
	}
	if t == nil {
		if !c.mayAsk(s, number, op, 1) {
			return
		}
		c.owe(s, question{task: call.Task, agent: call.Agent, reason: api.ReasonReconciliation})
		return
	}
	if t.status.State.Terminal() { // it has not heard so yet
		if c.mayAsk(s, number, op, 1) {
			c.tellTask(t, api.ReasonNone)
		}
		return
	}
	c.info("task kill", field("task", t.ref.String()), field("agent", t.agent.id), field("reason", api.ReasonKilledByFramework.String()))
	c.wishKill(t, call.Grace, api.ReasonKilledByFramework)
}

// wishKill records the wish and sends it if the agent listens. A second one may shorten
// the grace.
func (c *Core) wishKill(t *task, grace time.Duration, reason api.Reason) {
	if t.kill == nil {
		t.kill = &kill{reason: reason}
	}
	t.kill.grace = grace
	c.sendKill(t)
}

func (c *Core) sendKill(t *task) {
	if t.agent.reported() {
		c.tellAgent(t.agent, protocol.KillTask{TaskRef: t.ref, Grace: t.kill.grace, Reason: t.kill.reason})
	}
}

// resendKills repeats what was asked while the agent was away.
func (c *Core) resendKills(a *agent) {
	for _, t := range a.sortedTasks() {
		if t.kill != nil && !t.status.State.Terminal() {
			c.sendKill(t)
		}
	}
}

// killTaken: the agent will carry it out.
func (c *Core) killTaken(a *agent, taken protocol.KillTaken) {
	t := a.tasks[taken.TaskRef]
	if t == nil || t.kill == nil {
		return
	}
	c.replyKill(t, KillTaskAnswer{Task: t.ref})
}

// killPending tells operators that the agent is away; it will be told when it is back.
func (c *Core) killPending(t *task) {
	c.replyKill(t, KillTaskAnswer{Task: t.ref, Pending: true})
}

// killOver: the task has ended, by the kill or before it.
func (c *Core) killOver(t *task) {
	t.kill = nil
	c.replyKill(t, KillTaskAnswer{Task: t.ref, Already: t.status.State})
}

func (c *Core) replyKill(t *task, answer KillTaskAnswer) {
	for _, id := range t.waiters {
		c.emit(Reply{ID: id, Answer: answer})
	}
	t.waiters = nil
}

// waitersPerTaskMax bounds the operators who wait for one kill; more are refused (Limit).
const waitersPerTaskMax = 1000

// killRequested is an operator's wish.
func (c *Core) killRequested(id RequestID, action KillTask) {
	found, err := c.View().FindTask("task.kill", action.Task)
	switch {
	case err != nil:
		c.emit(Reply{ID: id, Err: err})
		return
	case found.Ended != nil:
		c.emit(Reply{ID: id, Answer: KillTaskAnswer{Task: found.Ref, Already: found.Ended.Status.State}})
		return
	case found.Untold:
		c.killAhead(c.agents[found.Agent], found.Ref, action.Grace)
		c.emit(Reply{ID: id, Answer: KillTaskAnswer{Task: found.Ref, Pending: true}})
		return
	}
	switch t := c.frameworks[found.Ref.Framework].tasks[found.Ref.Task]; {
	case t.status.State.Terminal():
		c.emit(Reply{ID: id, Answer: KillTaskAnswer{Task: t.ref, Already: t.status.State}})
	case len(t.waiters) >= waitersPerTaskMax:
		c.emit(Reply{ID: id, Err: api.E("task.kill", api.Limit, t.ref.String(), errors.New("too many wait for this kill already"))})
	default:
		c.info("task kill", field("task", t.ref.String()), field("agent", t.agent.id), field("reason", api.ReasonKilledByOperator.String()))
		t.waiters = append(t.waiters, id)
		c.wishKill(t, action.Grace, api.ReasonKilledByOperator)
		if !t.agent.reported() {
			c.killPending(t)
		}
	}
}
