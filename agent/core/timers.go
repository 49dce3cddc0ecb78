package core

import (
	"container/heap"
	"time"

	"github.com/tenderhq/tender/api"
)

// timer is a time at which something is to be checked again. No timer is removed early, so the code that it calls
// checks whether it is still due.
type timer struct {
	at     time.Time
	order  uint64
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

// timers is a heap ordered by time. Timers of the same time fire in the order in which they were set.
type timers struct {
	heap  timerHeap
	count uint64
}

func (t *timers) first() time.Time {
	if len(t.heap) == 0 {
		return time.Time{}
	}
	return t.heap[0].at
}

func (t *timers) add(entry timer) {
	t.count++
	entry.order = t.count
	heap.Push(&t.heap, entry)
}

type timerHeap []timer

func (h timerHeap) Len() int      { return len(h) }
func (h timerHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *timerHeap) Push(x any)   { *h = append(*h, x.(timer)) }

func (h timerHeap) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].order < h[j].order
}

func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	entry := (*h)[last]
	(*h)[last] = timer{}
	*h = (*h)[:last]
	return entry
}

// fireTimers fires all timers that are due. Timers that it sets meanwhile are due later, so it ends.
func (c *Core) fireTimers() {
	for len(c.timers.heap) > 0 && !c.timers.heap[0].at.After(c.now) {
		entry := heap.Pop(&c.timers.heap).(timer)
		switch entry.kind {
		case timerHeartbeat:
			c.reports.heartbeatDue(entry.conn)
		case timerSession:
			c.leader.sessionDue(entry.conn)
		case timerResend:
			c.statuses.resendDue(entry.task, entry.number, entry.conn)
		case timerKill:
			c.kills.killDue(entry.task)
		case timerExecutor:
			c.executors.executorDue(entry.run)
		case timerIdle:
			c.executors.idleDue(entry.run)
		case timerSandbox:
			c.sandboxes.sandboxDue()
		case timerSample:
			c.pressure.sampleDue()
		case timerCompletion:
			c.kills.completionDue(entry.task)
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
