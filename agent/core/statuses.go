package core

import (
	"strconv"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// statuses is the room of the statuses of tasks, from the report of an executor or of the agent itself to the leader's
// acknowledgement. Each status is stored, then sent, and sent again until it is acknowledged (R8). This room never
// starts or kills anything.
type statuses struct {
	*base
	leader    *leader
	sandboxes *sandboxes
	volumes   *volumes
	illegal   uint64 // how many statuses of executors were illegal moves
}

// newStatus returns the next status of a task, given by the agent itself.
func (st *statuses) newStatus(t *task, state api.TaskState, reason api.Reason, message string) api.Status {
	return api.Status{
		Framework: t.ref.Framework, Task: t.ref.Task, Agent: st.state.identity.Agent, Executor: t.executor.Executor,
		Number: t.next(), State: state, Reason: reason, Message: message, Source: api.MoverAgent, At: st.now,
		Launch: t.launch.id(), Given: api.Given{Image: t.image(), GPUs: t.launch.GPUs},
	}
}

// setStatus stores a status that the agent itself gives to a task.
func (st *statuses) setStatus(t *task, state api.TaskState, reason api.Reason, message string) {
	st.storeStatus(t, TaskStatus{Status: st.newStatus(t, state, reason, message)})
}

// storeStatus makes a status durable, then sends it. It returns the record's number.
func (st *statuses) storeStatus(t *task, record TaskStatus) uint64 {
	number := st.writeRecord(record)
	if t.ended() {
		st.takeOffExecutor(t)
	}
	st.follow(number, tellStatus{t.taskLaunch(), record.Status.Number, record.Status.State == api.TaskRunning})
	if t.endedBadly() {
		st.follow(number, endGroup{t.taskLaunch()})
	}
	return number
}

// statusStored sends a status that is on disk now.
func (st *statuses) statusStored(w tellStatus) {
	t := st.state.launched(w.task)
	if t == nil {
		return
	}
	t.stored(w.number)
	if t.crowded() && w.running && t.flight.conn == st.leader.conn {
		return // when an acknowledgement comes, the newest is sent; those that it replaces are not sent
	}
	st.sendStatus(t)
}

// takeOffExecutor says that a task has ended: to the shell, and by taking the task off its executor, which may now be
// idle.
func (st *statuses) takeOffExecutor(t *task) {
	e := st.state.executors[t.executor]
	ended := TaskEnded{Task: t.ref, Executor: t.executor}
	if len(t.secretFiles()) > 0 {
		ended.Sandbox = st.taskFolder(t.executor, t.ref.Task)
	}
	placed := e != nil && e.tasks[t.ref.Task] == t
	if placed {
		unneeded := e.removeTask(t)
		st.sandboxes.noteTasks(e)
		st.volumes.release(unneeded)
		if t.launch.Task.Executor != nil {
			ended.Volumes = unneeded
		}
	}
	st.emit(ended)
	if placed {
		st.startIdleTimer(e)
	}
}

// sendStatus sends the task's statuses that are on disk and were not sent in this session, in order. So the leader
// learns of an end at once, however slow the framework is (R27). When too much is under way, a new status is still sent
// once. It is sent again only when there is room. The report of the session has told the leader of the others.
func (st *statuses) sendStatus(t *task) {
	if !st.leader.registered || len(t.unacked) == 0 || st.state.tasks[t.ref] != t {
		return
	}
	if f := st.state.frameworks[t.ref.Framework]; f != nil && f.removed {
		st.sendUnasked(t)
		return
	}
	if t.flight.conn != st.leader.conn {
		t.flight = flight{stored: t.flight.stored, conn: st.leader.conn, watches: t.flight.watches}
	}
	first := max(t.flight.sent+1, t.unacked[0].Number)
	if first > t.flight.stored {
		return
	}
	bytes := 0
	for _, status := range t.statuses(first, t.flight.stored) {
		st.leader.tell(protocol.StatusUpdate{Status: status})
		t.flight.sent = status.Number
		bytes += protocol.StatusBytes(status)
	}
	if !t.flight.under && st.leader.window.full() {
		st.leader.window.wait(t.ref)
		return
	}
	t.flight.bytes += bytes
	st.leader.window.fill(bytes, !t.flight.under)
	if !t.flight.under {
		t.flight.under = true
		st.scheduleResend(t, st.config.ResendMin)
	}
}

// sendStatuses sends the unacknowledged statuses of all tasks, as far as the window has room.
func (st *statuses) sendStatuses() {
	for _, t := range st.state.tasksInOrder() {
		if !st.leader.window.full() {
			st.sendStatus(t)
		} else if len(t.unacked) > 0 {
			st.leader.window.wait(t.ref)
		}
	}
}

// scheduleResend sends what is under way again after a pause, unless an acknowledgement comes first.
func (st *statuses) scheduleResend(t *task, pause time.Duration) {
	t.flight.watches++
	t.flight.pause = pause
	st.wakeIn(pause, timer{kind: timerResend, conn: t.flight.conn, task: t.ref, number: t.flight.watches})
}

// sendUnasked sends the stored statuses of a removed framework's task once, and settles them without an
// acknowledgement.
func (st *statuses) sendUnasked(t *task) {
	st.endFlight(t)
	st.tellStatuses(t, t.flight.stored)
	st.settleStatuses(t, t.flight.stored)
}

// endFlight notes that none of the task's statuses is under way any more, so that those of another task may be sent.
func (st *statuses) endFlight(t *task) {
	if !t.flight.under || t.flight.conn != st.leader.conn {
		return
	}
	t.flight.under = false
	st.leader.window.empty(t.flight.bytes)
	t.flight.bytes = 0
	for ref, waits := st.leader.window.next(); waits; ref, waits = st.leader.window.next() {
		next := st.state.tasks[ref]
		if next == nil || next.flight.under && next.flight.conn == st.leader.conn {
			continue
		}
		next.flight.sent = 0
		st.sendStatus(next)
	}
}

// resendDue sends all statuses of the task that are under way again, from the oldest on, so that a receiver that missed
// one gets it before the next.
func (st *statuses) resendDue(ref api.TaskRef, number uint64, conn Conn) {
	t := st.state.tasks[ref]
	if t == nil || t.flight.watches != number || t.flight.conn != conn || conn != st.leader.conn || !t.flight.under {
		return
	}
	st.resend(t, min(2*t.flight.pause, st.config.ResendMax))
}

// sendAgain does the same at once, because the scheduler listens again. Statuses that are not under way are sent when
// there is room.
func (st *statuses) sendAgain(ref api.TaskRef) {
	if t := st.state.tasks[ref]; t != nil && t.flight.under && t.flight.conn == st.leader.conn {
		st.resend(t, st.config.ResendMin)
	}
}

func (st *statuses) resend(t *task, pause time.Duration) {
	st.tellStatuses(t, t.flight.sent)
	st.scheduleResend(t, pause)
}

// tellStatuses sends the unacknowledged statuses up to last, from the oldest on.
func (st *statuses) tellStatuses(t *task, last uint64) {
	for _, status := range t.statuses(0, last) {
		st.leader.tell(protocol.StatusUpdate{Status: status})
	}
}

// takeAcknowledgement settles the statuses up to that number. A scheduler that has handled a status has handled those
// before it, or was told of this one in their place (R8).
func (st *statuses) takeAcknowledgement(e protocol.AcknowledgeStatus) {
	t := st.state.tasks[e.TaskRef]
	if t == nil || len(t.unacked) == 0 || t.unacked[0].Number > e.Number || e.Number > t.flight.stored {
		return
	}
	if e.Number >= t.flight.sent {
		st.endFlight(t)
	} else if t.flight.under && t.flight.conn == st.leader.conn {
		st.scheduleResend(t, st.config.ResendMin)
	}
	st.settleStatuses(t, e.Number)
	st.sendStatus(t)
}

// settleStatuses forgets the task's statuses up to number. With its last one an ended task becomes a stub.
func (st *statuses) settleStatuses(t *task, number uint64) {
	st.writeRecord(TaskAcknowledged{t.ref, number})
	st.answerUnheard(t)
	if st.state.tasks[t.ref] == nil {
		st.sandboxes.keepStub(t)
		st.leaveFramework(t.ref.Framework)
	}
}

// takeStatus takes a status from an executor. The status is acknowledged once it is on disk, or at once if there is
// nothing to store.
func (st *statuses) takeStatus(conn Conn, ref api.ExecutorRef, s protocol.ExecutorStatus) {
	answer := acknowledgeExecutor{conn, protocol.ExecutorAcknowledged{Task: s.Task, Number: s.Number}}
	t := st.state.tasks[api.TaskRef{Framework: ref.Framework, Task: s.Task}]
	if t == nil || t.executor != ref || t.ended() || s.Number <= max(t.heard, t.ignored) {
		if t == nil || t.executor != ref || !t.letsWait(answer, s) {
			st.acknowledgeExecutor(answer) // an earlier copy may not be on disk yet
		}
		return
	}
	t.handed = true
	st.dropSecrets(t)
	group := Process{PID: s.ProcessGroup, Start: s.ProcessStart}
	state, reason, message, ok := st.judgeMove(t, s)
	if !ok {
		t.ignored = s.Number
		if group.PID != 0 && group != t.group {
			st.writeRecord(TaskGroup{t.ref, group})
		}
		st.acknowledgeExecutor(answer)
		return
	}
	source := api.MoverExecutor
	if state == api.TaskDropped {
		source = api.MoverAgent
	}
	status := api.Status{
		Framework: t.ref.Framework, Task: t.ref.Task, Agent: st.state.identity.Agent, Executor: ref.Executor,
		Number: t.next(), State: state, Reason: reason, Message: message, Source: source, At: st.now,
		Data: s.Data, ExitCode: s.ExitCode, Healthy: s.Healthy, Output: s.Output, Launch: t.launch.id(), Given: api.Given{Image: t.image(), GPUs: t.launch.GPUs},
	}
	number := st.storeStatus(t, TaskStatus{Status: status, ExecutorNumber: s.Number, Group: group, Progress: s.Progress})
	st.watchCompletion(t)
	if !t.letsWait(answer, s) {
		st.follow(number, answer)
	}
}

// letsWait keeps back the answer to a report while too many of the task's statuses wait for acknowledgement. The
// executor sends more when it is answered. Reports of progress are always answered, because the newest is enough, and
// so is an end.
func (t *task) letsWait(answer acknowledgeExecutor, s protocol.ExecutorStatus) bool {
	t.unheard = acknowledgeExecutor{}
	if s.Progress || s.State.Terminal() || t.ended() || !t.crowded() {
		return false
	}
	t.unheard = answer
	return true
}

// answerUnheard gives the answer that was kept back, once there is room.
func (st *statuses) answerUnheard(t *task) {
	if t.unheard.conn != 0 && !t.crowded() {
		st.acknowledgeExecutor(t.unheard)
		t.unheard = acknowledgeExecutor{}
	}
}

// dropSecrets makes the shell forget the values of the task's secrets.
func (st *statuses) dropSecrets(t *task) {
	if t.given.here {
		t.given.here = false
		st.emit(DropSecrets{t.ref})
	}
}

// acknowledgeExecutor acknowledges a status to the executor once all records written so far are on disk.
func (st *statuses) acknowledgeExecutor(answer acknowledgeExecutor) {
	if !st.mustWait(st.disk.written, answer) {
		st.emit(ToExecutor{answer.conn, answer.answer})
	}
}

// judgeMove says what to make of an executor's report, by the table of moves. An illegal move is dropped, unless it is
// an end: the executor no longer has the task then, so the task is FAILED.
func (st *statuses) judgeMove(t *task, s protocol.ExecutorStatus) (api.TaskState, api.Reason, string, bool) {
	from := t.latest.State
	if from == api.TaskKilling && s.State == api.TaskKilling {
		return 0, 0, "", false // the agent has told KILLING already
	}
	if s.State == api.TaskFailed && s.Reason.Blameless() && t.launch.Task.Executor == nil && api.MayMove(from, api.TaskDropped, api.MoverAgent) {
		return api.TaskDropped, s.Reason, s.Message, true // the executor for commands could not begin it (R59)
	}
	if api.MayMove(from, s.State, api.MoverExecutor) {
		switch bare := s.State == api.TaskKilled && s.Reason == api.ReasonNone; {
		case bare && st.frameworkRemoved(t.ref.Framework):
			return s.State, api.ReasonFrameworkRemoved, s.Message, true
		case bare && t.kill != nil:
			state, reason, message := t.killedAs(s.Message)
			return state, reason, message, true
		}
		return s.State, s.Reason, s.Message, true
	}
	st.logIllegal(t, s)
	if s.State.Terminal() {
		why := "its executor ended it as " + s.State.String() + " from " + from.String() + ": " + s.Message
		return api.TaskFailed, s.Reason, why, true
	}
	return 0, 0, "", false
}

// logIllegal counts a status that is an illegal move. Only the first one of each task is logged, because an executor
// that makes such a mistake may make it very often.
func (st *statuses) logIllegal(t *task, s protocol.ExecutorStatus) {
	st.illegal++
	if t.illegalLogged {
		return
	}
	t.illegalLogged = true
	st.log("executor's status is no legal move", field("task", t.ref.String()), field("from", t.latest.State.String()),
		field("to", s.State.String()), field("number", strconv.FormatUint(s.Number, 10)))
}
