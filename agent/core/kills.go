package core

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// kills is the room of the tasks that are to end. Each kill is stored first, then carried out (R12). If an executor
// does not carry it out in time, the agent repeats the kill and then kills the processes. This room never reports a
// task as ended while its executor may still run it.
type kills struct {
	*base
	leader    *leader
	statuses  *statuses
	executors *executors
}

// killTask stores a kill, confirms it to the leader, and carries it out (R12). A further kill is confirmed in the same
// way. If it ends the task sooner it is stored, otherwise the first one is passed on again. The first one's reason
// stays.
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

// storeKill writes that a task is to be killed, and why. The kill is carried out when that is on disk.
func (k *kills) storeKill(t *task, grace time.Duration, reason api.Reason) {
	k.writeKill(t, TaskKilled{Task: t.ref, Grace: k.graceOf(t, grace), Reason: reason})
}

// shortenKill gives a task that is being killed a shorter grace; the reason stays.
func (k *kills) shortenKill(t *task, grace time.Duration) {
	record := *t.kill
	record.Grace = k.graceOf(t, grace)
	k.writeKill(t, record)
}

func (k *kills) writeKill(t *task, record TaskKilled) {
	t.killRecord = k.writeRecord(record)
	k.log("task is to be killed", field("task", t.ref.String()), field("why", record.Reason.String()))
	k.follow(t.killRecord, carryOutKill{t.taskLaunch()})
}

// killWithin kills a task with its own grace, or with bound if that is shorter; a bound of 0 means none. A task that is
// being killed already keeps its reason, but its remaining time is shortened to this grace too.
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

// graceOf returns the grace that was asked for; if none was, the task's own or the agent's default.
func (k *kills) graceOf(t *task, asked time.Duration) time.Duration {
	return cmp.Or(max(asked, 0), t.launch.Task.KillGrace, k.config.KillGrace)
}

// shortens says whether a further kill with that grace ends the task sooner than the kills before it.
func (k *kills) shortens(t *task, asked time.Duration) bool {
	grace := k.graceOf(t, asked)
	if t.press.killBy.IsZero() {
		return grace < t.kill.Grace
	}
	return k.now.Add(grace).Before(t.press.killBy)
}

// actOnKill ends a task that was never handed to its executor, and otherwise asks the executor to kill it.
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

// pressAt sets when the agent next acts on a killed task, in place of the time that was set before.
func (k *kills) pressAt(t *task, when time.Time) {
	t.press.next = when
	k.timers.Add(when, timer{kind: timerKill, task: t.ref})
}

// passKill asks the executor to kill the task, if the executor has a session.
func (k *kills) passKill(t *task) {
	if e := k.state.executors[t.executor]; e != nil && e.listening() {
		k.emit(ToExecutor{e.conn, protocol.ExecutorKill{Task: t.ref.Task, Grace: t.kill.Grace}})
	}
}

// killDue acts when an executor has not ended a killed task in time. First the task's own process group is killed with
// SIGKILL. A task without one can only be ended with its executor; the agent does that if the executor has no other
// task. Otherwise the scheduler is told, and the executor is asked again, with growing pauses.
func (k *kills) killDue(ref api.TaskRef) {
	t := k.state.tasks[ref]
	if t == nil || t.ended() || t.kill == nil || k.now.Before(t.press.next) {
		return
	}
	e := k.state.executors[t.executor]
	if e == nil || e.ending() {
		return // the end of its executor ends the task too
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

// tellHung says, once, why a killed task still runs: only the end of its executor can end it, and that would end the
// executor's other tasks too.
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

// A task may say how long it may run at most (MaxCompletionTime). The time begins when the task was RUNNING for the
// first time. While this process lives the monotonic clock measures it; over a restart of the agent the wall clock
// does. If that was set back meanwhile, the task gets its whole time once more, and never more than that. (Protocol
// rule R43.)

// watchCompletion sets the timer for the end of a task's time, if the task has a longest time and has begun to run.
func (b *base) watchCompletion(t *task) {
	if t.launch.Began.IsZero() || !t.deadline.IsZero() || t.ended() {
		return
	}
	ran := max(b.now.Sub(t.launch.Began), 0)
	t.deadline = b.now.Add(max(t.launch.Task.MaxCompletionTime-ran, 0))
	b.timers.Add(t.deadline, timer{kind: timerCompletion, task: t.ref})
}

// completionDue kills a task whose time is over. A task that is being killed already keeps the grace that it has.
func (k *kills) completionDue(ref api.TaskRef) {
	t := k.state.tasks[ref]
	if t == nil || t.ended() || t.kill != nil || t.deadline.IsZero() || k.now.Before(t.deadline) {
		return
	}
	k.storeKill(t, 0, api.ReasonMaxCompletionTime)
}

// outgrown kills a task that has written more than it may, unless it has ended or is being killed.
func (k *kills) outgrown(t *task, why string) {
	if t.ended() || t.kill != nil {
		return
	}
	k.log("task has outgrown its disk", field("task", t.ref.String()), field("why", why))
	k.writeKill(t, TaskKilled{Task: t.ref, Grace: k.graceOf(t, 0), Reason: api.ReasonDiskLimit, Why: why})
}

// killedAs returns the state, the reason and the message of a task that has ended because it was killed. The state is
// FAILED if the task itself is to blame: its time was over, or it has written more than it may.
func (t *task) killedAs(why string) (api.TaskState, api.Reason, string) {
	var fault string
	switch t.kill.Reason {
	case api.ReasonMaxCompletionTime:
		fault = fmt.Sprintf("it had run for its longest time of %v", t.launch.Task.MaxCompletionTime)
	case api.ReasonDiskLimit:
		fault = t.kill.Why
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
