package core

import (
	"strconv"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// status is the agent's own next word about a task.
func (c *Core) status(t *task, state api.TaskState, reason api.Reason, message string) api.Status {
	return api.Status{
		Framework: t.ref.Framework, Task: t.ref.Task, Agent: c.state.identity.Agent, Executor: t.executor.Executor,
		Number: t.next(), State: state, Reason: reason, Message: message, Source: api.MoverAgent, At: c.now,
	}
}

func (c *Core) setStatus(t *task, state api.TaskState, reason api.Reason, message string) {
	c.storeStatus(t, TaskStatus{Status: c.status(t, state, reason, message)})
}

// storeStatus makes a status durable, then sends it. It returns the record's number.
func (c *Core) storeStatus(t *task, record TaskStatus) uint64 {
	number := c.put(record)
	if t.ended() {
		c.ended(t)
	}
	c.after(number, tellStatus{t.launchID(), record.Status.Number, record.Status.State == api.TaskRunning})
	return number
}

func (c *Core) statusStored(w tellStatus) {
	t := c.state.launched(w.task)
	if t == nil {
		return
	}
	t.stored = max(t.stored, w.number)
	if t.crowded() && w.running && t.sentIn == c.leader.conn {
		return // an acknowledgement sends the newest; those that it replaces are not sent
	}
	c.sendStatus(t)
}

// ended takes the task off its executor.
func (c *Core) ended(t *task) {
	c.emit(TaskEnded{t.ref})
	e := c.state.executors[t.executor]
	if e == nil || e.tasks[t.ref.Task] != t {
		return
	}
	delete(e.tasks, t.ref.Task)
	c.idle(e)
}

// sendStatus sends what is on disk of the task and was not sent in this session, in
// order: the leader hears of an end at once, however slow its framework is (R27).
// When the leader is full a status that is new still goes, but comes again only when there is
// room; the report of the session has told of the others.
func (c *Core) sendStatus(t *task) {
	if !c.leader.registered || len(t.unacked) == 0 || c.state.tasks[t.ref] != t {
		return
	}
	if f := c.state.frameworks[t.ref.Framework]; f != nil && f.removed {
		c.sendUnasked(t)
		return
	}
	if t.sentIn != c.leader.conn {
		t.sent, t.sentIn, t.flying, t.bytes = 0, c.leader.conn, false, 0
	}
	first := max(t.sent+1, t.unacked[0].Number)
	if first > t.stored {
		return
	}
	bytes := 0
	for _, status := range t.unacked {
		if status.Number >= first && status.Number <= t.stored {
			c.tell(protocol.StatusUpdate{Status: status})
			t.sent = status.Number
			bytes += protocol.StatusBytes(status)
		}
	}
	if !t.flying && c.leader.full() {
		c.leader.backlog = append(c.leader.backlog, t.ref)
		return
	}
	c.leader.bytes, t.bytes = c.leader.bytes+bytes, t.bytes+bytes
	if !t.flying {
		c.leader.flying++
		t.flying = true
		c.watch(t, c.config.ResendMin)
	}
}

// sendStatuses sends the unacknowledged statuses of all tasks, as many as may fly.
func (c *Core) sendStatuses() {
	for _, t := range c.state.tasksInOrder() {
		if !c.leader.full() {
			c.sendStatus(t)
		} else if len(t.unacked) > 0 {
			c.leader.backlog = append(c.leader.backlog, t.ref)
		}
	}
}

// watch sends what is under way again after a pause, unless its framework moves on.
func (c *Core) watch(t *task, pause time.Duration) {
	t.watches++
	t.pause = pause
	c.in(pause, timer{kind: timerResend, conn: t.sentIn, task: t.ref, number: t.watches})
}

// sendUnasked tells what is stored of a removed framework's task, and settles it.
func (c *Core) sendUnasked(t *task) {
	c.landed(t)
	for _, status := range t.unacked {
		if status.Number <= t.stored {
			c.tell(protocol.StatusUpdate{Status: status})
		}
	}
	c.settle(t, t.stored)
}

// landed: all that was under way of the task has reached its end, so another may go.
func (c *Core) landed(t *task) {
	if !t.flying || t.sentIn != c.leader.conn {
		return
	}
	t.flying = false
	c.leader.flying--
	c.leader.bytes, t.bytes = c.leader.bytes-t.bytes, 0
	for len(c.leader.backlog) > 0 && !c.leader.full() {
		next := c.state.tasks[c.leader.backlog[0]]
		c.leader.backlog = c.leader.backlog[1:]
		if next == nil || next.flying && next.sentIn == c.leader.conn {
			continue
		}
		next.sent = 0
		c.sendStatus(next)
	}
}

// resendDue sends all that is under way of the task again, from the oldest on: who
// missed one hears it before the next.
func (c *Core) resendDue(ref api.TaskRef, number uint64, conn Conn) {
	t := c.state.tasks[ref]
	if t == nil || t.watches != number || t.sentIn != conn || conn != c.leader.conn || !t.flying {
		return
	}
	for _, status := range t.unacked {
		if status.Number <= t.sent {
			c.tell(protocol.StatusUpdate{Status: status})
		}
	}
	c.watch(t, min(2*t.pause, c.config.ResendMax))
}

// acknowledged settles the statuses up to that number: whoever has handled it has
// handled those before it, or was told of it in their place (R8).
func (c *Core) acknowledged(e protocol.AcknowledgeStatus) {
	t := c.state.tasks[e.TaskRef]
	if t == nil || len(t.unacked) == 0 || t.unacked[0].Number > e.Number || e.Number > t.stored {
		return
	}
	if e.Number >= t.sent {
		c.landed(t)
	} else if t.flying && t.sentIn == c.leader.conn {
		c.watch(t, c.config.ResendMin)
	}
	c.settle(t, e.Number)
	c.sendStatus(t)
}

// settle forgets statuses up to number, and the task with its last one.
func (c *Core) settle(t *task, number uint64) {
	c.put(TaskAcknowledged{t.ref, number})
	if c.state.tasks[t.ref] == nil {
		c.stubMade(t)
		c.leaveFramework(t.ref.Framework)
	}
}

// executorStatus takes a status from an executor. It is acknowledged when it is on
// disk, and at once when there is nothing to store.
func (c *Core) executorStatus(conn Conn, ref api.ExecutorRef, s protocol.ExecutorStatus) {
	answer := acknowledgeExecutor{conn, protocol.ExecutorAcknowledged{Task: s.Task, Number: s.Number}}
	t := c.state.tasks[api.TaskRef{Framework: ref.Framework, Task: s.Task}]
	if t == nil || t.executor != ref || t.ended() || s.Number <= max(t.heard, t.ignored) {
		c.after(c.written, answer) // an earlier copy may be on its way to the disk
		return
	}
	t.handed = true
	group := Process{PID: s.ProcessGroup, Start: s.ProcessStart}
	state, reason, message, ok := c.judge(t, s)
	if !ok {
		t.ignored = s.Number
		if group.PID != 0 && group != t.group {
			c.put(TaskGroup{t.ref, group})
		}
		c.after(c.written, answer)
		return
	}
	status := api.Status{
		Framework: t.ref.Framework, Task: t.ref.Task, Agent: c.state.identity.Agent, Executor: ref.Executor,
		Number: t.next(), State: state, Reason: reason, Message: message, Source: api.MoverExecutor, At: c.now,
		Data: s.Data, ExitCode: s.ExitCode, Healthy: s.Healthy, Output: s.Output,
	}
	number := c.storeStatus(t, TaskStatus{Status: status, ExecutorNumber: s.Number, Group: group})
	c.after(number, answer)
}

// judge says what an executor's word makes of a task, by the table of moves. A wrong
// move is dropped, but for an end: the executor has no such task any more, so a wrong
// end is FAILED.
func (c *Core) judge(t *task, s protocol.ExecutorStatus) (api.TaskState, api.Reason, string, bool) {
	from := t.latest.State
	if from == api.TaskKilling && s.State == api.TaskKilling {
		return 0, 0, "", false // the agent has said so
	}
	if api.MayMove(from, s.State, api.MoverExecutor) {
		reason := s.Reason
		if s.State == api.TaskKilled && reason == api.ReasonNone && t.kill != nil {
			reason = t.kill.Reason
		}
		return s.State, reason, s.Message, true
	}
	c.logIllegal(t, s)
	if s.State.Terminal() {
		return api.TaskFailed, s.Reason, "its executor ended it as " + s.State.String() + " from " + from.String() + ": " + s.Message, true
	}
	return 0, 0, "", false
}

// logIllegal counts a status that is no legal move. The log gets one line for each task: an executor
// that is wrong may be wrong very often.
func (c *Core) logIllegal(t *task, s protocol.ExecutorStatus) {
	c.illegal++
	if t.scolded {
		return
	}
	t.scolded = true
	c.log("executor's status is no legal move", field("task", t.ref.String()), field("from", t.latest.State.String()),
		field("to", s.State.String()), field("number", strconv.FormatUint(s.Number, 10)))
}
