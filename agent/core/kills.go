package core

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// kills is the room of the tasks that are to end. Each kill is stored, then carried out (R12); when an executor does
// not carry it out in time, the agent repeats it and then ends the processes. It never says of a task that it has ended
// while its executor may still run it.
type kills struct {
	*base
	leader    *leader
	statuses  *statuses
	executors *executors
}

// killTask stores a kill, says so, and acts (R12). A second one is answered alike; it is stored when it ends the task
// sooner, and passed on again otherwise. The first one's reason stays.
func (k *kills) killTask(e protocol.KillTask) {
	t := k.state.tasks[e.TaskRef]
	switch {
	case t == nil:
		k.log("kill of an unknown task ignored", field("task", e.TaskRef.String()))
		return
	case t.ended():
		k.leader.tell(protocol.KillTaken{TaskRef: t.ref})
		return
	case t.kill == nil:
		k.storeKill(t, e.Grace, e.Reason)
	case k.shortens(t, e.Grace):
		k.shortenKill(t, e.Grace)
	case t.handed && k.disk.safe(t.killRecord):
		k.passKill(t)
	}
	if !k.mustWait(k.disk.written, confirmKill{t.ref}) {
		k.leader.tell(protocol.KillTaken{TaskRef: t.ref})
	}
}

// storeKill writes that a task is to end, and why; the kill follows when that is on disk.
func (k *kills) storeKill(t *task, grace time.Duration, reason api.Reason) {
	k.writeKill(t, TaskKilled{Task: t.ref, Grace: k.graceOf(t, grace), Reason: reason})
}

// shortenKill gives a task that is being killed less time; the reason stays.
func (k *kills) shortenKill(t *task, grace time.Duration) {
	record := *t.kill
	record.Grace = k.graceOf(t, grace)
	k.writeKill(t, record)
}

func (k *kills) writeKill(t *task, record TaskKilled) {
	t.killRecord = k.writeRecord(record)
	k.log("task is to be killed", field("task", t.ref.String()), field("why", record.Reason.String()))
	k.follow(t.killRecord, carryOutKill{t.launchID()})
}

// killWithin kills a task with its own grace, or with the bound where that is shorter; 0 is no bound. One that is being
// killed already keeps its reason, and has no longer than that either.
func (k *kills) killWithin(t *task, bound time.Duration, reason api.Reason) {
	grace := k.graceOf(t, 0)
	if bound > 0 {
		grace = min(grace, bound)
	}
	switch {
	case t.kill == nil:
		k.storeKill(t, grace, reason)
	case bound > 0 && k.shortens(t, bound):
		k.shortenKill(t, bound)
	}
}

// graceOf is the grace that was asked for, or the task's own.
func (k *kills) graceOf(t *task, asked time.Duration) time.Duration {
	return cmp.Or(max(asked, 0), t.launch.Task.KillGrace, k.config.KillGrace)
}

// shortens says whether a further kill of a task ends it sooner than those before it.
func (k *kills) shortens(t *task, asked time.Duration) bool {
	grace := k.graceOf(t, asked)
	if t.press.killBy.IsZero() {
		return grace < t.kill.Grace
	}
	return k.now.Add(grace).Before(t.press.killBy)
}

// actOnKill ends a task that its executor never got, or asks its executor.
func (k *kills) actOnKill(t *task) {
	if t.ended() || t.kill == nil || !k.disk.safe(t.killRecord) {
		return
	}
	if !t.handed {
		state, reason, why := t.killedAs("killed before it was started")
		k.statuses.setStatus(t, state, reason, why)
		return
	}
	if t.latest.State == api.TaskRunning {
		k.statuses.setStatus(t, api.TaskKilling, t.kill.Reason, "")
	}
	k.passKill(t)
	t.press.killBy = k.now.Add(t.kill.Grace)
	t.press.pause = k.config.KillSlack
	k.pressAt(t, t.press.killBy.Add(t.press.pause))
}

// pressAt has the task looked at again at that time, instead of when that was planned before.
func (k *kills) pressAt(t *task, when time.Time) {
	t.press.next = when
	k.wakeAt(when, timer{kind: timerKill, task: t.ref})
}

// passKill asks the executor to kill the task.
func (k *kills) passKill(t *task) {
	if e := k.state.executors[t.executor]; e != nil && e.listening() {
		k.emit(ToExecutor{e.conn, protocol.ExecutorKill{Task: t.ref.Task, Grace: t.kill.Grace}})
	}
}

// killDue acts when an executor has not ended a killed task in time: first SIGKILL goes to the task's own process
// group. A task without one can only be ended with its executor, which is done when no other task would suffer;
// otherwise the scheduler is told so, and the executor is asked again, with growing pauses.
func (k *kills) killDue(ref api.TaskRef) {
	t := k.state.tasks[ref]
	if t == nil || t.ended() || t.kill == nil || k.now.Before(t.press.next) {
		return
	}
	e := k.state.executors[t.executor]
	if e == nil || e.ending() {
		return // it ends with its executor
	}
	t.press.repeats++
	switch {
	case t.group.PID != 0 && t.press.repeats <= 2:
		k.emit(KillGroup{Task: ref, Group: t.group, Executor: e.ref(), Leader: e.started.Process, Sandbox: k.executorFolder(e.ref())})
		k.log("task did not end in time: SIGKILL to its process group", field("task", ref.String()))
	case len(e.tasks) == 1:
		k.log("task did not end in time: its executor is killed", field("task", ref.String()))
		k.executors.killExecutor(e, t.kill.Reason, "it did not end its only task within the grace")
		return
	default:
		k.tellHung(t, e)
		k.passKill(t)
	}
	t.press.pause = min(2*t.press.pause, time.Minute)
	k.pressAt(t, k.now.Add(t.press.pause))
}

// tellHung says, once, why a killed task goes on: nothing but the end of its executor can
// end it, and that would be the end of its neighbours.
func (k *kills) tellHung(t *task, e *executor) {
	if t.latest.State != api.TaskKilling || t.latest.Message != "" {
		return
	}
	others := "another task"
	if n := len(e.tasks) - 1; n > 1 {
		others = fmt.Sprintf("%d other tasks", n)
	}
	k.log("task did not end in time: its executor runs others", field("task", t.ref.String()))
	k.statuses.setStatus(t, api.TaskKilling, t.kill.Reason, fmt.Sprintf(
		"it has not ended within its grace of %v, and its executor %s runs %s; it ends when it is alone there, "+
			"or at once with all of them when the executor is shut down", t.kill.Grace, t.executor.Executor, others))
}

// A task may say for how long it runs at most (MaxCompletionTime). The time begins when it was first RUNNING. While
// this process lives it is measured by the monotonic clock, over a restart of the agent by the wall clock; one that was
// set back meanwhile gives the task all of its time once more, and never more than that. (Protocol rule R43.)

// watchCompletion has a task that has begun to run looked at when its time is over.
func (b *base) watchCompletion(t *task) {
	if t.launch.Began.IsZero() || !t.deadline.IsZero() || t.ended() {
		return
	}
	ran := max(b.now.Sub(t.launch.Began), 0)
	t.deadline = b.now.Add(max(t.launch.Task.MaxCompletionTime-ran, 0))
	b.wakeAt(t.deadline, timer{kind: timerCompletion, task: t.ref})
}

// completionDue kills a task whose time is over. One that is being killed keeps the grace it has.
func (k *kills) completionDue(ref api.TaskRef) {
	t := k.state.tasks[ref]
	if t == nil || t.ended() || t.kill != nil || t.deadline.IsZero() || k.now.Before(t.deadline) {
		return
	}
	k.storeKill(t, 0, api.ReasonMaxCompletionTime)
}

// killedAs is the state and reason of a task that has ended because it was killed. It is FAILED where the task is to
// blame: its time is over, or it has outgrown its disk.
func (t *task) killedAs(why string) (api.TaskState, api.Reason, string) {
	var fault string
	switch t.kill.Reason {
	case api.ReasonMaxCompletionTime:
		fault = fmt.Sprintf("it had run for its longest time of %v", t.launch.Task.MaxCompletionTime)
	case api.ReasonDiskLimit:
		fault = fmt.Sprintf("its sandbox had more than the %s of disk that it asked for", megabytes(t.diskMax()))
	case api.ReasonTaskGroupFailed:
		return api.TaskKilled, t.kill.Reason, strings.TrimSuffix(t.kill.Why+": "+why, ": ")
	default:
		return api.TaskKilled, t.kill.Reason, why
	}
	if why != "" {
		fault += ": " + why
	}
	return api.TaskFailed, t.kill.Reason, fault
}
