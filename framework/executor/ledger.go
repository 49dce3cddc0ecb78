package executor

import (
	"context"
	"fmt"
	"sync"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

const (
	// unacknowledgedPerTaskMax and unacknowledgedBytesMax bound what is kept of one task; beyond
	// them only its end is still taken.
	unacknowledgedPerTaskMax = 64
	unacknowledgedBytesMax   = 256 << 10
	// messagesBytesMax bounds messages that wait for the agent; more are refused.
	messagesBytesMax = 4 << 20
	// endingsMax bounds the tasks whose end is remembered, so that a second copy of
	// their launch is ignored.
	endingsMax = 1 << 14
	// subscribeBytesAim is where a page of SubscribeExecutor is full; what is left follows it.
	subscribeBytesAim = api.MessageBytesMax / 4
	// subscribeTasksMax is how many tasks one page names.
	subscribeTasksMax = 4096
)

// ledger keeps all tasks and what their agent has not acknowledged of them.
type ledger struct {
	wake chan struct{} // capacity 1: there is something to send

	mu      sync.Mutex
	changed sync.Cond // a task has ended, or something was acknowledged
	tasks   map[api.TaskID]*entry
	endings map[api.TaskID]struct{}
	ring    []api.TaskID // of endings, the oldest at next
	next    int
	living  int                     // tasks that have not ended
	online  bool                    // a session takes what comes
	out     []protocol.ExecutorCall // waits for the writer of this session
	said    int                     // bytes of messages in out

	watch func(*Task) context.CancelFunc // begins the checks of a task that runs; nil: none are made
}

// entry is a task until it has ended and all is acknowledged.
type entry struct {
	task   *Task
	state  api.TaskState
	number uint64
	kept   []protocol.ExecutorStatus // not acknowledged, in order

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

// launch takes a task in; false: it was known.
func (l *ledger) launch(task *Task) bool {
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

// report numbers a status and keeps it until it is acknowledged.
func (l *ledger) report(id api.TaskID, report Report) error {
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
	e.state = report.State
	if e.state.Terminal() {
		l.living--
		l.changed.Broadcast()
	}
	l.keep(e, report)
	l.keepWatch(e)
	return nil
}

// isBehind says whether as much waits for the agent as may. Under mu.
func (e *entry) isBehind() bool {
	bytes := 0
	for _, status := range e.kept {
		bytes += len(status.Data)
	}
	return len(e.kept) >= unacknowledgedPerTaskMax || bytes >= unacknowledgedBytesMax
}

// isTaken says whether the agent has all that was reported. Under mu.
func (l *ledger) isTaken(id api.TaskID) bool {
	e := l.tasks[id]
	return e == nil || len(e.kept) == 0
}

// keep numbers a status, keeps it until it is acknowledged, and sends it. Under mu.
func (l *ledger) keep(e *entry, report Report) {
	e.number++
	status := report.status(e.task.ID, e.number)
	e.kept = append(e.kept, status)
	l.put(status)
}

// killing notes that a running task is to end: no progress of it is told any more. The
// agent has told of KILLING when it passed the kill on.
func (l *ledger) killing(id api.TaskID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.tasks[id]; e != nil && e.state == api.TaskRunning {
		e.state = api.TaskKilling
		l.keepWatch(e)
	}
}

// put queues a call in this session; without one it is not sent.
func (l *ledger) put(call protocol.ExecutorCall) {
	if !l.online {
		return
	}
	l.out = append(l.out, call)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// message queues bytes for the scheduler in this session.
func (l *ledger) message(data []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.online:
		return errAway
	case l.said+len(data) > messagesBytesMax:
		return errFull
	}
	l.said += len(data)
	l.put(protocol.ExecutorMessage{Data: data})
	return nil
}

func (l *ledger) send(call protocol.ExecutorCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.put(call)
}

// take hands the writer what waits.
func (l *ledger) take() []protocol.ExecutorCall {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.out
	l.out, l.said = nil, 0
	return out
}

// acknowledged drops a status: the agent has it. Numbers before it need not be sent
// again either: the agent takes them in order.
func (l *ledger) acknowledged(id api.TaskID, number uint64) {
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
		l.remember(id)
	}
	l.changed.Broadcast()
}

func (l *ledger) remember(id api.TaskID) {
	if len(l.ring) < endingsMax {
		l.ring = append(l.ring, id)
	} else {
		delete(l.endings, l.ring[l.next])
		l.ring[l.next] = id
		l.next = (l.next + 1) % endingsMax
	}
	l.endings[id] = struct{}{}
}

// subscribe starts a session: the first calls list the tasks, in pages, and what is not
// acknowledged; what does not fit the last page follows as statuses. A task that has ended is
// named as long as its end is not acknowledged: one that is not named never came here.
func (l *ledger) subscribe(first protocol.SubscribeExecutor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.online, l.out, l.said = true, nil, 0
	page, size := first, 0
	var rest []protocol.ExecutorCall
	for id := range l.tasks { // order: irrelevant between tasks
		if size += len(id) + 8; size > subscribeBytesAim || len(page.Tasks) >= subscribeTasksMax {
			page.More = true
			l.put(page)
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
	l.put(page)
	l.out = append(l.out, rest...)
}

// offline ends the session.
func (l *ledger) offline() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.online, l.out, l.said = false, nil, 0
	l.changed.Broadcast()
}

// get returns a task that has not ended, or nil.
func (l *ledger) get(id api.TaskID) *Task {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.tasks[id]; e != nil && !e.state.Terminal() {
		return e.task
	}
	return nil
}

// alive lists the tasks that have not ended.
func (l *ledger) alive() []*Task {
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

// await blocks until the condition holds or ctx ends. The condition runs under mu.
func (l *ledger) await(ctx context.Context, condition func() bool) bool {
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

// ended: every task has. Under mu.
func (l *ledger) ended() bool { return l.living == 0 }

// settled: nothing awaits acknowledgement, or nobody is there to acknowledge. Under mu.
func (l *ledger) settled() bool { return len(l.tasks) == 0 || !l.online }
