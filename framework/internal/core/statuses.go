package core

import (
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// hearStatus judges a status, of a master or made here, and has it delivered.
func (c *Core) hearStatus(status api.Status) {
	// The kill may have reached the leader before the task's agent had come back, when the leader did not know the
	// task.
	t := c.tasks.open[status.Task]
	if t != nil && t.killing.asked && !t.isOver() && status.Reason == api.ReasonReconciliation && !status.State.Terminal() {
		c.sendKill(t, t.killing.graces.Each()...)
	}
	t, verdict := c.tasks.take(status)
	switch verdict {
	case acknowledge:
		c.sendAcknowledgement(status)
	case deliver:
		if t.delivery == deliveryNone {
			c.resumeTask(t)
		}
	}
}

// resumeTask has the task's first held status handled, in the next session if there is none now.
func (c *Core) resumeTask(t *task) {
	t.delivery = deliveryBusy
	if c.session.phase != active {
		c.tasks.waiting = append(c.tasks.waiting, t.taskRef)
		return
	}
	c.calls.push(CallUpdate{Status: t.held[0], task: t.taskRef})
}

// sendAcknowledgement tells the agent that it need not send the status again.
func (c *Core) sendAcknowledgement(status api.Status) {
	if status.Number > 0 && c.session.phase == active {
		c.session.calls++
		c.emit(Acknowledge{Number: c.session.calls, Item: protocol.Acknowledgement{
			Framework: c.self.framework.ID, Task: status.Task, Agent: status.Agent, Number: status.Number,
		}})
	}
}

// updateReturned handles the result of Update for the task's first held status.
func (c *Core) updateReturned(call CallUpdate, result Called) {
	t := c.tasks.find(call.task)
	switch {
	case t == nil: // forgotten meanwhile
	case result.Outcome == Skipped: // the next session may have begun already
		c.resumeTask(t)
	case result.Outcome == Later && t.delivery == deliveryEarly:
		c.acknowledgeHandled(t)
	case result.Outcome == Later && !c.tasks.isStray(t):
		t.delivery = deliveryLater
	case result.Outcome != Handled:
		pause := c.tasks.retryLater(t, c.now)
		c.log(Warn, "update failed, it will come again", Field{"task", t.id}, Field{"state", t.held[0].State.String()},
			Field{"in", pause}, Field{"error", result.Err})
	default:
		c.acknowledgeHandled(t)
	}
}

// acknowledgeHandled acknowledges the task's first held status and continues with the next.
func (c *Core) acknowledgeHandled(t *task) {
	status, settled := c.tasks.handled(t, c.session.phase == active)
	c.count(1, CountStatus{State: status.State, Reason: status.Reason})
	c.sendAcknowledgement(status)
	if !settled && len(t.held) > 0 {
		c.resumeTask(t)
	}
}

// acknowledgeLater ends the wait for a status for which Update has returned ErrLater. The goroutine that was handed the
// status may be done with it even before Update returns.
func (c *Core) acknowledgeLater(status api.Status) {
	t := c.tasks.open[status.Task]
	if t == nil || len(t.held) == 0 || t.held[0].Number != status.Number {
		return
	}
	switch t.delivery {
	case deliveryLater:
		c.acknowledgeHandled(t)
	case deliveryBusy:
		t.delivery = deliveryEarly
	}
}

// killTask asks for the end of a task.
func (c *Core) killTask(asked KillAsked) {
	if c.tasks.endings.has(asked.Task) {
		return
	}
	t := c.tasks.get(asked.Task)
	t.killing.asked = true
	t.killing.graces.Ask(asked.Grace)
	if !t.isOver() {
		c.sendKill(t, asked.Grace)
	}
}

func (c *Core) sendKill(t *task, graces ...time.Duration) {
	t.questioned = true // a leader that does not know the task tells what has become of it
	for _, grace := range graces {
		c.sendCall(protocol.Kill{Task: t.id, Agent: t.agent, Grace: grace})
	}
}

// askAboutTasks asks for the states of the tasks, page by page. It sends one empty page if there are none.
func (c *Core) askAboutTasks(tasks []protocol.UnsettledTask) {
	for page := range pages(tasks, unsettledPerPageMax) {
		if len(page.items) > 0 {
			c.sendCall(protocol.Reconcile{Tasks: page.items})
		}
	}
}

// askTasks asks for the states of the tasks, to tell them even if they have not changed. None means all tasks.
func (c *Core) askTasks(ids []api.TaskID) {
	var asked []protocol.UnsettledTask
	for _, id := range ids {
		t := c.tasks.get(id)
		c.tasks.endings.remove(id)
		t.asked = true
		asked = append(asked, t.question())
	}
	if len(ids) == 0 {
		for _, t := range c.tasks.open { // order: irrelevant because each is changed by itself
			t.asked = true
		}
		c.sendCall(protocol.Reconcile{})
		asked = c.tasks.unsettled()
	}
	c.askAboutTasks(asked)
}

// refusalOf returns the last status of a task whose accept was refused: DROPPED if another offer may do, ERROR if the
// same task will be refused again.
func (c *Core) refusalOf(id api.TaskID, agent api.AgentID, err *api.Error) api.Status {
	status := api.Status{
		Framework: c.self.framework.ID,
		Task:      id,
		Agent:     agent,
		State:     api.TaskDropped,
		Reason:    api.ReasonInvalidOffers,
		Message:   err.Error(),
		Source:    api.MoverMaster,
		At:        c.now,
	}
	switch err.Kind {
	case api.Invalid, api.Unsupported:
		status.State, status.Reason = api.TaskError, api.ReasonTaskInvalid
	case api.Denied:
		status.State, status.Reason = api.TaskError, api.ReasonTaskUnauthorized
	case api.Exists:
		status.State, status.Reason = api.TaskError, api.ReasonTaskDuplicate
	}
	return status
}
