package core

import (
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// statuses brings what becomes of tasks from masters to the scheduler: each status once it is handled is acknowledged, and
// one that was not handled comes again. It sends what the scheduler wants to know of tasks, and their kills.
type statuses struct {
	*base
	self    *self
	session *session
	tasks   *tasks
	calls   *calls
}

// hearStatus judges a status, of a master or made here, and has it delivered.
func (d *statuses) hearStatus(status api.Status) {
	// The kill may have reached the leader before the task's agent had come back, when the leader did not know the
	// task.
	t := d.tasks.open[status.Task]
	if t != nil && t.killing.asked && !t.isOver() && status.Reason == api.ReasonReconciliation && !status.State.Terminal() {
		d.sendKill(t, t.killing.graces.Each()...)
	}
	t, verdict := d.tasks.judgeStatus(status)
	switch verdict {
	case acknowledge:
		d.sendAcknowledgement(status)
	case deliver:
		if t.delivery == deliveryNone {
			d.resumeTask(t)
		}
	}
}

// resumeTask has the task's first held status handled, in the next session if there is none now.
func (d *statuses) resumeTask(t *task) {
	t.delivery = deliveryBusy
	if d.session.phase != active {
		d.tasks.waiting = append(d.tasks.waiting, t.taskRef)
		return
	}
	d.calls.queueCall(CallUpdate{Status: t.held[0], task: t.taskRef})
}

// sendAcknowledgement tells the agent that it need not send the status again.
func (d *statuses) sendAcknowledgement(status api.Status) {
	if status.Number > 0 && d.session.phase == active {
		d.emit(Acknowledge{Number: d.session.nextNumber(), Item: protocol.Acknowledgement{
			Framework: d.self.framework.ID, Task: status.Task, Agent: status.Agent, Number: status.Number,
		}})
	}
}

// hearResult handles the result of Update for the task's first held status.
func (d *statuses) hearResult(call CallUpdate, result Called) {
	t := d.tasks.findTask(call.task)
	switch {
	case t == nil: // forgotten meanwhile
	case result.Outcome == Skipped: // the next session may have begun already
		d.resumeTask(t)
	case result.Outcome == Later && t.delivery == deliveryEarly:
		d.acknowledgeHandled(t)
	case result.Outcome == Later && !d.tasks.isStray(t):
		t.delivery = deliveryLater
	case result.Outcome != Handled:
		pause := d.tasks.retryLater(t, d.now)
		d.log(Warn, "update failed, it will come again", Field{"task", t.id}, Field{"state", t.held[0].State.String()},
			Field{"in", pause}, Field{"error", result.Err})
	default:
		d.acknowledgeHandled(t)
	}
}

// acknowledgeHandled acknowledges the task's first held status and continues with the next.
func (d *statuses) acknowledgeHandled(t *task) {
	status, settled := d.tasks.removeHandled(t, d.session.phase == active)
	d.count(1, CountStatus{State: status.State, Reason: status.Reason})
	d.sendAcknowledgement(status)
	if !settled && len(t.held) > 0 {
		d.resumeTask(t)
	}
}

// acknowledgeLater ends the wait for a status for which Update has returned ErrLater. The goroutine that was handed the
// status may be done with it even before Update returns.
func (d *statuses) acknowledgeLater(status api.Status) {
	t := d.tasks.open[status.Task]
	if t == nil || len(t.held) == 0 || t.held[0].Number != status.Number {
		return
	}
	switch t.delivery {
	case deliveryLater:
		d.acknowledgeHandled(t)
	case deliveryBusy:
		t.delivery = deliveryEarly
	}
}

// killTask asks for the end of a task.
func (d *statuses) killTask(asked KillAsked) {
	if d.tasks.endings.has(asked.Task) {
		return
	}
	t := d.tasks.getTask(asked.Task)
	t.killing.asked = true
	t.killing.graces.Ask(asked.Grace)
	if !t.isOver() {
		d.sendKill(t, asked.Grace)
	}
}

func (d *statuses) sendKill(t *task, graces ...time.Duration) {
	t.questioned = true // a leader that does not know the task tells what has become of it
	for _, grace := range graces {
		d.session.sendCall(protocol.Kill{Task: t.id, Agent: t.agent, Grace: grace})
	}
}

// askAbout asks for the states of the tasks, page by page. It sends one empty page if there are none.
func (d *statuses) askAbout(tasks []protocol.UnsettledTask) {
	for page := range pages(tasks, unsettledPerPageMax) {
		if len(page.items) > 0 {
			d.session.sendCall(protocol.Reconcile{Tasks: page.items})
		}
	}
}

// askStates asks for the states of the tasks, to tell them even if they have not changed. None means all tasks.
// at, if named, is the agent of those of which nothing is known: they are taken to have run there.
func (d *statuses) askStates(ids []api.TaskID, at api.AgentID) {
	var asked []protocol.UnsettledTask
	for _, id := range ids {
		t := d.tasks.getTask(id)
		d.tasks.endings.remove(id)
		t.asked = true
		question := t.question()
		if question.Agent == "" && at != "" {
			question.Agent, question.State = at, api.TaskRunning
		}
		asked = append(asked, question)
	}
	if len(ids) == 0 {
		for _, t := range d.tasks.open { // order: irrelevant because each is changed by itself
			t.asked = true
		}
		d.session.sendCall(protocol.Reconcile{})
		asked = d.tasks.listUnsettled()
	}
	d.askAbout(asked)
}

// refusalOf returns the last status of a task whose accept was refused: DROPPED if another offer may do, ERROR if the
// same task will be refused again.
func (d *statuses) refusalOf(id api.TaskID, agent api.AgentID, err *api.Error) api.Status {
	status := api.Status{
		Framework: d.self.framework.ID,
		Task:      id,
		Agent:     agent,
		State:     api.TaskDropped,
		Reason:    api.ReasonInvalidOffers,
		Message:   err.Error(),
		Source:    api.MoverMaster,
		At:        d.now,
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
