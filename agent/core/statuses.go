package core

import (
	"slices"
	"strconv"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// statuses is the room of the statuses of tasks, from the word of an executor or of the agent itself to the leader's
// acknowledgement. Each status is stored, then sent, and sent again until it is acknowledged (R8). It never starts or
// kills anything.
type statuses struct {
	*base
	leader    *leader
	sandboxes *sandboxes
	illegal   uint64 // statuses of executors that were no legal move
}

// newStatus is the next status of a task that the agent itself gives.
func (st *statuses) newStatus(t *task, state api.TaskState, reason api.Reason, message string) api.Status {
	return api.Status{
		Framework: t.ref.Framework, Task: t.ref.Task, Agent: st.state.identity.Agent, Executor: t.executor.Executor,
		Number: t.next(), State: state, Reason: reason, Message: message, Source: api.MoverAgent, At: st.now,
		Given: api.Given{Image: t.image(), GPUs: t.launch.GPUs},
	}
}

// setStatus stores a status that the agent itself gives a task.
func (st *statuses) setStatus(t *task, state api.TaskState, reason api.Reason, message string) {
	st.storeStatus(t, TaskStatus{Status: st.newStatus(t, state, reason, message)})
}

// storeStatus makes a status durable, then sends it. It returns the record's number.
func (st *statuses) storeStatus(t *task, record TaskStatus) uint64 {
	number := st.writeRecord(record)
	if t.ended() {
		st.takeOffExecutor(t)
	}
	st.follow(number, tellStatus{t.launchID(), record.Status.Number, record.Status.State == api.TaskRunning})
	if t.endedBadly() {
		st.follow(number, endGroup{t.launchID()})
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
		return // an acknowledgement sends the newest; those that it replaces are not sent
	}
	st.sendStatus(t)
}

// takeOffExecutor says that a task has ended, to its executor's clock and to whoever reads its output.
func (st *statuses) takeOffExecutor(t *task) {
	e := st.state.executors[t.executor]
	ended := TaskEnded{Task: t.ref, Executor: t.executor}
	if len(t.secretFiles()) > 0 {
		ended.Sandbox = st.taskFolder(t.executor, t.ref.Task)
	}
	if e != nil && t.launch.Task.Executor != nil {
		needed := e.volumes()
		ended.Volumes = slices.DeleteFunc(volumesIn(t.launch.Resources), func(id api.VolumeID) bool { return slices.Contains(needed, id) })
	}
	st.emit(ended)
	if e == nil || e.tasks[t.ref.Task] != t {
		return
	}
	delete(e.tasks, t.ref.Task)
	st.startIdleTimer(e)
}

// sendStatus sends what is on disk of the task and was not sent in this session, in
// order: the leader hears of an end at once, however slow its framework is (R27).
// When the leader is full a status that is new still goes, but comes again only when there is
// room; the report of the session has told of the others.
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
		st.leader.window.backlog = append(st.leader.window.backlog, t.ref)
		return
	}
	st.leader.window.bytes, t.flight.bytes = st.leader.window.bytes+bytes, t.flight.bytes+bytes
	if !t.flight.under {
		st.leader.window.tasks++
		t.flight.under = true
		st.scheduleResend(t, st.config.ResendMin)
	}
}

// sendStatuses sends the unacknowledged statuses of all tasks, as many as may fly.
func (st *statuses) sendStatuses() {
	for _, t := range st.state.tasksInOrder() {
		if !st.leader.window.full() {
			st.sendStatus(t)
		} else if len(t.unacked) > 0 {
			st.leader.window.backlog = append(st.leader.window.backlog, t.ref)
		}
	}
}

// scheduleResend sends what is under way again after a pause, unless its framework moves on.
func (st *statuses) scheduleResend(t *task, pause time.Duration) {
	t.flight.watches++
	t.flight.pause = pause
	st.wakeIn(pause, timer{kind: timerResend, conn: t.flight.conn, task: t.ref, number: t.flight.watches})
}

// sendUnasked tells what is stored of a removed framework's task, and settles it.
func (st *statuses) sendUnasked(t *task) {
	st.endFlight(t)
	st.tellStatuses(t, t.flight.stored)
	st.settleStatuses(t, t.flight.stored)
}

// endFlight notes that all statuses of the task that were under way have arrived, so that those of another task may be
// sent.
func (st *statuses) endFlight(t *task) {
	if !t.flight.under || t.flight.conn != st.leader.conn {
		return
	}
	t.flight.under = false
	st.leader.window.tasks--
	st.leader.window.bytes, t.flight.bytes = st.leader.window.bytes-t.flight.bytes, 0
	for len(st.leader.window.backlog) > 0 && !st.leader.window.full() {
		next := st.state.tasks[st.leader.window.backlog[0]]
		st.leader.window.backlog = st.leader.window.backlog[1:]
		if next == nil || next.flight.under && next.flight.conn == st.leader.conn {
			continue
		}
		next.flight.sent = 0
		st.sendStatus(next)
	}
}

// resendDue sends all that is under way of the task again, from the oldest on: who
// missed one hears it before the next.
func (st *statuses) resendDue(ref api.TaskRef, number uint64, conn Conn) {
	t := st.state.tasks[ref]
	if t == nil || t.flight.watches != number || t.flight.conn != conn || conn != st.leader.conn || !t.flight.under {
		return
	}
	st.resend(t, min(2*t.flight.pause, st.config.ResendMax))
}

// sendAgain does the same now, because somebody listens again. What is not under way yet is sent when there is room.
func (st *statuses) sendAgain(ref api.TaskRef) {
	if t := st.state.tasks[ref]; t != nil && t.flight.under && t.flight.conn == st.leader.conn {
		st.resend(t, st.config.ResendMin)
	}
}

func (st *statuses) resend(t *task, pause time.Duration) {
	st.tellStatuses(t, t.flight.sent)
	st.scheduleResend(t, pause)
}

// tellStatuses tells what is not acknowledged, from the oldest on, up to the last.
func (st *statuses) tellStatuses(t *task, last uint64) {
	for _, status := range t.statuses(0, last) {
		st.leader.tell(protocol.StatusUpdate{Status: status})
	}
}

// takeAcknowledgement settles the statuses up to that number: whoever has handled it has
// handled those before it, or was told of it in their place (R8).
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

// settleStatuses forgets statuses up to number, and the task with its last one.
func (st *statuses) settleStatuses(t *task, number uint64) {
	st.writeRecord(TaskAcknowledged{t.ref, number})
	st.answerUnheard(t)
	if st.state.tasks[t.ref] == nil {
		st.sandboxes.keepStub(t)
		st.leaveFramework(t.ref.Framework)
	}
}

// takeStatus takes a status from an executor. It is acknowledged when it is on
// disk, and at once when there is nothing to store.
func (st *statuses) takeStatus(conn Conn, ref api.ExecutorRef, s protocol.ExecutorStatus) {
	answer := acknowledgeExecutor{conn, protocol.ExecutorAcknowledged{Task: s.Task, Number: s.Number}}
	t := st.state.tasks[api.TaskRef{Framework: ref.Framework, Task: s.Task}]
	if t == nil || t.executor != ref || t.ended() || s.Number <= max(t.heard, t.ignored) {
		if t == nil || t.executor != ref || !t.letsWait(answer, s) {
			st.acknowledgeExecutor(answer) // an earlier copy may be on its way to the disk
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
	status := api.Status{
		Framework: t.ref.Framework, Task: t.ref.Task, Agent: st.state.identity.Agent, Executor: ref.Executor,
		Number: t.next(), State: state, Reason: reason, Message: message, Source: api.MoverExecutor, At: st.now,
		Data: s.Data, ExitCode: s.ExitCode, Healthy: s.Healthy, Output: s.Output, Given: api.Given{Image: t.image(), GPUs: t.launch.GPUs},
	}
	number := st.storeStatus(t, TaskStatus{Status: status, ExecutorNumber: s.Number, Group: group, Progress: s.Progress})
	st.watchCompletion(t)
	if !t.letsWait(answer, s) {
		st.follow(number, answer)
	}
}

// letsWait keeps the answer to a report back while as many of the task wait for acknowledgement as may: its executor
// tells the next ones when there is room again. Of progress the newest is enough, and an end is always answered.
func (t *task) letsWait(answer acknowledgeExecutor, s protocol.ExecutorStatus) bool {
	t.unheard = acknowledgeExecutor{}
	if s.Progress || s.State.Terminal() || t.ended() || !t.crowded() {
		return false
	}
	t.unheard = answer
	return true
}

// answerUnheard answers what was kept back, once there is room.
func (st *statuses) answerUnheard(t *task) {
	if t.unheard.conn != 0 && !t.crowded() {
		st.acknowledgeExecutor(t.unheard)
		t.unheard = acknowledgeExecutor{}
	}
}

// dropSecrets has the shell forget the values: the executor has the task.
func (st *statuses) dropSecrets(t *task) {
	if t.given.here {
		t.given.here = false
		st.emit(DropSecrets{t.ref})
	}
}

// acknowledgeExecutor lets the executor forget a status once all that was written so far is on disk.
func (st *statuses) acknowledgeExecutor(answer acknowledgeExecutor) {
	if !st.mustWait(st.disk.written, answer) {
		st.emit(ToExecutor{answer.conn, answer.answer})
	}
}

// judgeMove says what an executor's word makes of a task, by the table of moves. A wrong
// move is dropped, but for an end: the executor has no such task any more, so a wrong
// end is FAILED.
func (st *statuses) judgeMove(t *task, s protocol.ExecutorStatus) (api.TaskState, api.Reason, string, bool) {
	from := t.latest.State
	if from == api.TaskKilling && s.State == api.TaskKilling {
		return 0, 0, "", false // the agent has said so
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

// logIllegal counts a status that is no legal move. The log gets one line for each task, since an executor that makes
// one such mistake may make very many.
func (st *statuses) logIllegal(t *task, s protocol.ExecutorStatus) {
	st.illegal++
	if t.illegalLogged {
		return
	}
	t.illegalLogged = true
	st.log("executor's status is no legal move", field("task", t.ref.String()), field("from", t.latest.State.String()),
		field("to", s.State.String()), field("number", strconv.FormatUint(s.Number, 10)))
}
