package core

import (
	"time"

	"github.com/tenderhq/tender/api"
)

// timer is what is to be checked again at some time. No timer is removed early, so the code that it calls checks whether
// it is still due.
type timer struct {
	kind   timerKind
	conn   Conn
	task   api.TaskRef
	run    Run
	number uint64
}

type timerKind uint8

const (
	timerHeartbeat timerKind = iota
	timerSession
	timerResend
	timerKill
	timerExecutor
	timerIdle
	timerSandbox
	timerSample
	timerCompletion
)

func (k timerKind) String() string {
	return [...]string{"heartbeat", "session", "resend", "kill", "executor", "idle", "sandbox", "sample", "completion"}[k]
}

// fireTimers fires all timers that are due. Timers that it sets meanwhile are due later, so it ends.
func (c *Core) fireTimers() {
	for timer, is := c.timers.Due(c.now); is; timer, is = c.timers.Due(c.now) {
		switch timer.kind {
		case timerHeartbeat:
			c.reports.heartbeatDue(timer.conn)
		case timerSession:
			c.leader.sessionDue(timer.conn)
		case timerResend:
			c.statuses.resendDue(timer.task, timer.number, timer.conn)
		case timerKill:
			c.kills.killDue(timer.task)
		case timerExecutor:
			c.executors.executorDue(timer.run)
		case timerIdle:
			c.executors.idleDue(timer.run)
		case timerSandbox:
			c.sandboxes.sandboxDue()
		case timerSample:
			c.pressure.sampleDue()
		case timerCompletion:
			c.kills.completionDue(timer.task)
		}
	}
}

// away moves the deadlines that judge whether others are alive, because a loop that did not run has not heard anybody.
// (Protocol rule R23.)
func (c *Core) away(gap time.Duration) {
	c.leader.excuse(gap)
	for _, e := range c.state.executorsInOrder() {
		if !e.deadline.IsZero() {
			c.executors.setDeadline(e, e.deadline.Add(gap))
		}
	}
}
