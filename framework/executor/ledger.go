package executor

import (
	"context"
	"fmt"
	"sync"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

const (
	// unacknowledgedPerTaskMax and unacknowledgedBytesMax bound the unacknowledged statuses of one task, by count and
	// by bytes. Beyond them only the task's end is still accepted.
	unacknowledgedPerTaskMax = 64
	unacknowledgedBytesMax   = 256 << 10
	// messagesBytesMax bounds the messages that wait for the agent; more are refused.
	messagesBytesMax = 4 << 20
	// endingsMax bounds how many ended tasks are remembered, so that a repeated launch of one of them is ignored.
	endingsMax = 1 << 14
	// subscribeBytesAim is the size at which a page of SubscribeExecutor is full. Statuses that do not fit follow after
	// the last page.
	subscribeBytesAim = api.MessageBytesMax / 4
	// subscribeTasksMax is how many tasks one page names.
	subscribeTasksMax = 4096
)

// ledger keeps all tasks, and the statuses of them that the agent has not acknowledged.
type ledger struct {
	wake chan struct{} // capacity 1: there is something to send

	mu      sync.Mutex
	changed sync.Cond // a task has ended, or a status was acknowledged
	tasks   map[api.TaskID]*entry
	endings map[api.TaskID]struct{}
	ring    []api.TaskID // ended tasks as a ring; the oldest is at next
	next    int
	living  int                     // tasks that have not ended
	online  bool                    // there is a session, which takes what is put into out
	out     []protocol.ExecutorCall // calls that wait for the writer of this session
	said    int                     // bytes of messages in out

	watch func(*Task) context.CancelFunc // begins the checks of a running task; nil: no checks are made
}

// entry is a task, until it has ended and all its statuses are acknowledged.
type entry struct {
	task   *Task
	state  api.TaskState
	number uint64
	kept   []protocol.ExecutorStatus // statuses that are not acknowledged, in order
	// unbegun: it could not begin, which was not its fault. Its framework is told DROPPED, and may launch its ID again.
	unbegun bool

	illness illness
}

func newLedger() *ledger {
	l := &ledger{
		wake:    make(chan struct{}, 1),
		tasks:   make(map[api.TaskID]*entry),
		endings: make(map[api.TaskID]struct{}),
	}
	l.changed.L = &l.mu
	return l
}

// addTask adds a task; false: the ledger knew it already.
func (l *ledger) addTask(task *Task) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ended := l.endings[task.ID]; ended || l.tasks[task.ID] != nil {
		return false
	}
	task.ledger = l
	l.tasks[task.ID] = &entry{task: task, state: api.TaskStaging}
	l.living++
	l.changed.Broadcast()
	return true
}

// addReport gives a status its number and keeps it until it is acknowledged.
func (l *ledger) addReport(id api.TaskID, report Report) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.tasks[id]
	if e == nil || e.state.Terminal() {
		return errEnded
	}
	report = e.illness.diagnose(report, e.task.Checks)
	switch {
	case !api.MayMove(e.state, report.State, api.MoverExecutor):
		return fmt.Errorf("a task in %v can't be moved to %v by its executor", e.state, report.State)
	case e.isBehind() && !report.State.Terminal():
		return errBehind
	}
	e.unbegun = e.state < api.TaskRunning && report.State == api.TaskFailed && report.Reason.Blameless()
	e.state = report.State
	if e.state.Terminal() {
		l.living--
		l.changed.Broadcast()
	}
	l.keepStatus(e, report)
	l.keepWatch(e)
	return nil
}

// isBehind reports whether the task's unacknowledged statuses have reached their limit. The caller holds mu.
func (e *entry) isBehind() bool {
	bytes := 0
	for _, status := range e.kept {
		bytes += len(status.Data)
	}
	return len(e.kept) >= unacknowledgedPerTaskMax || bytes >= unacknowledgedBytesMax
}

// isTaken reports whether the agent has acknowledged all that was reported of the task. The caller holds mu.
func (l *ledger) isTaken(id api.TaskID) bool {
	e := l.tasks[id]
	return e == nil || len(e.kept) == 0
}

// keepStatus gives a status its number, sends it, and keeps it until it is acknowledged. The caller holds mu.
func (l *ledger) keepStatus(e *entry, report Report) {
	e.number++
	status := report.status(e.task.ID, e.number)
	e.kept = append(e.kept, status)
	l.queueCall(status)
}

// noteKill notes that a running task has to end: from now on its progress is no longer told. The agent itself told of
// KILLING when it passed the kill on.
func (l *ledger) noteKill(id api.TaskID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.tasks[id]; e != nil && e.state == api.TaskRunning {
		e.state = api.TaskKilling
		l.keepWatch(e)
	}
}

// queueCall queues a call in the current session. Without a session it does nothing.
func (l *ledger) queueCall(call protocol.ExecutorCall) {
	if !l.online {
		return
	}
	l.out = append(l.out, call)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// queueMessage queues a message for the scheduler in the current session.
func (l *ledger) queueMessage(data []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.online:
		return errAway
	case l.said+len(data) > messagesBytesMax:
		return errFull
	}
	l.said += len(data)
	l.queueCall(protocol.ExecutorMessage{Data: data})
	return nil
}

func (l *ledger) sendCall(call protocol.ExecutorCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queueCall(call)
}

// takeCalls returns what waits for the writer.
func (l *ledger) takeCalls() []protocol.ExecutorCall {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.out
	l.out, l.said = nil, 0
	return out
}

// dropAcknowledged drops a status that the agent has, and all statuses before it: the agent takes them in order.
func (l *ledger) dropAcknowledged(id api.TaskID, number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.tasks[id]
	if e == nil {
		return
	}
	for len(e.kept) > 0 && e.kept[0].Number <= number {
		e.kept = e.kept[1:]
	}
	if e.state.Terminal() && len(e.kept) == 0 {
		delete(l.tasks, id)
		if !e.unbegun {
			l.rememberEnd(id)
		}
	}
	l.changed.Broadcast()
}

func (l *ledger) rememberEnd(id api.TaskID) {
	if len(l.ring) < endingsMax {
		l.ring = append(l.ring, id)
	} else {
		delete(l.endings, l.ring[l.next])
		l.ring[l.next] = id
		l.next = (l.next + 1) % endingsMax
	}
	l.endings[id] = struct{}{}
}

// beginSession starts a session. Its first calls list the tasks, in pages, and their unacknowledged statuses; the statuses
// that do not fit into the last page follow one by one. A task that has ended is listed as long as its end is not
// acknowledged, because the agent concludes that a task that is not listed never came here.
func (l *ledger) beginSession(first protocol.SubscribeExecutor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.online, l.out, l.said = true, nil, 0
	page, size := first, 0
	var rest []protocol.ExecutorCall
	for id := range l.tasks { // order: irrelevant between tasks
		if size += len(id) + 8; size > subscribeBytesAim || len(page.Tasks) >= subscribeTasksMax {
			page.More = true
			l.queueCall(page)
			page, size = first, len(id)+8
		}
		page.Tasks = append(page.Tasks, id)
	}
	for _, e := range l.tasks { // order: irrelevant between tasks
		for _, status := range e.kept {
			if size += len(status.Data) + len(status.Message) + 128; size < subscribeBytesAim {
				page.Unacknowledged = append(page.Unacknowledged, status)
			} else {
				rest = append(rest, status)
			}
		}
	}
	l.queueCall(page)
	l.out = append(l.out, rest...)
}

// endSession ends the session: what waits to be sent is dropped, as the next session begins with all that is
// unacknowledged.
func (l *ledger) endSession() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.online, l.out, l.said = false, nil, 0
	l.changed.Broadcast()
}

// taskNamed returns a task that has not ended, or nil.
func (l *ledger) taskNamed(id api.TaskID) *Task {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.tasks[id]; e != nil && !e.state.Terminal() {
		return e.task
	}
	return nil
}

// livingTasks lists the tasks that have not ended.
func (l *ledger) livingTasks() []*Task {
	l.mu.Lock()
	defer l.mu.Unlock()
	var tasks []*Task
	for _, e := range l.tasks { // order: irrelevant because each is killed by itself
		if !e.state.Terminal() {
			tasks = append(tasks, e.task)
		}
	}
	return tasks
}

// awaitCondition blocks until the condition holds or ctx ends. The condition is called with mu held.
func (l *ledger) awaitCondition(ctx context.Context, condition func() bool) bool {
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.changed.Broadcast()
	})
	defer stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	for !condition() {
		if ctx.Err() != nil {
			return false
		}
		l.changed.Wait()
	}
	return true
}

// allEnded reports whether all tasks have ended. The caller holds mu.
func (l *ledger) allEnded() bool { return l.living == 0 }

// allSettled reports whether no status waits for an acknowledgement, or there is no session in which one could come. The
// caller holds mu.
func (l *ledger) allSettled() bool { return len(l.tasks) == 0 || !l.online }
