package framework

import (
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

const (
	// heldPerTaskMax and heldMax bound statuses that wait for the scheduler. Beyond
	// them numbered ones are not taken in; their agents send them again.
	heldPerTaskMax = 256
	heldMax        = 1 << 16
	// endingsMax bounds the tasks whose end is remembered so that a second copy of
	// it, whose acknowledgement was lost, is not told again.
	endingsMax = 1 << 16
)

// task is what the SDK remembers of a task until its end is handled.
type task struct {
	id       api.TaskID
	agent    api.AgentID
	launched bool          // by this process, on agent
	known    bool          // launched or heard of: the leader is asked about it (R8)
	number   uint64        // of the last status that the scheduler has handled
	seen     uint64        // of the last status that was taken in
	state    api.TaskState // of the last status that the scheduler has handled
	latest   api.TaskState // of the last status that was taken in
	over     bool          // a status that settles it was taken in
	gap      bool          // one was not taken in: the next must be seen+1
	held     []api.Status  // taken in and not handled, in order
	busy     bool          // held[0] is on its way to the scheduler or waits for another try
	failures int           // of held[0], in a row
	accept   uint64        // number of the call that launched it, until it is heard of
	asked    bool          // by the user's Reconcile: the answer is told even when it is no news
	kill     bool          // asked for; repeated in every session (R12)
	killing  killing       // how
	later    bool          // held[0] waits for Client.Acknowledge
	stray    bool          // not in the book: tells of a task that was refused here
	// questioned: the leader was asked about it since it was launched. Without that an
	// answer is about an earlier launch of the same ID, which was DROPPED.
	questioned bool
}

// book holds the tasks that are not settled.
type book struct {
	tasks   map[api.TaskID]*task
	endings endings
	held    int // statuses in all tasks
}

func newBook() *book {
	return &book{tasks: make(map[api.TaskID]*task), endings: endings{set: make(map[api.TaskID]api.TaskState)}}
}

// verdict says what to do with a status that came.
type verdict uint8

const (
	ignore      verdict = iota // no news, or no room
	acknowledge                // handled before, or after the end: tell its agent
	deliver                    // was put into held
)

// get returns the task's record, a new one if need be.
func (b *book) get(id api.TaskID) *task {
	t := b.tasks[id]
	if t == nil {
		t = &task{id: id}
		b.tasks[id] = t
	}
	return t
}

// used reports whether the ID is taken. An ID is never used twice,
// but for a task that never started (DROPPED).
func (b *book) used(id api.TaskID) bool {
	t := b.tasks[id]
	return t != nil && t.known || b.endings.has(id) && b.endings.set[id] != api.TaskDropped
}

// launch notes a task that the numbered call launches.
func (b *book) launch(id api.TaskID, agent api.AgentID, call uint64) {
	b.endings.remove(id) // it was DROPPED, and is tried again
	t := b.get(id)
	t.agent, t.launched, t.known, t.questioned = agent, true, true, false
	t.state, t.latest = api.TaskStaging, api.TaskStaging
	t.accept = call
}

// take judges a status and puts it into its task's held when it is to be delivered.
func (b *book) take(status api.Status) (*task, verdict) {
	t := b.tasks[status.Task]
	if t == nil {
		if b.endings.has(status.Task) {
			return nil, settledBefore(status)
		}
		t = b.get(status.Task)
		t.agent = status.Agent
	}
	verdict := t.judge(status, b.held >= heldMax)
	t.known, t.accept = true, 0
	if verdict == deliver {
		b.hold(t, status)
	}
	return t, verdict
}

// hold queues the status behind those that wait.
func (b *book) hold(t *task, status api.Status) {
	t.held = append(t.held, status)
	b.held++
	t.seen = max(t.seen, status.Number)
	t.latest = status.State
	t.over = settles(status.State)
	t.asked = false
}

// settles reports whether nothing is to be awaited after the state.
func settles(state api.TaskState) bool { return state.Terminal() || state == api.TaskUnknown }

// settledBefore: only what has a number awaits an acknowledgement.
func settledBefore(status api.Status) verdict {
	if status.Number > 0 {
		return acknowledge
	}
	return ignore
}

func (t *task) judge(status api.Status, full bool) verdict {
	switch elsewhere := t.agent != "" && status.Agent != t.agent; {
	case t.launched && (elsewhere && status.Agent != "" || t.foreign(status)):
		return settledBefore(status) // of another life of this ID
	case elsewhere && status.Number > 0:
		t.seen, t.number = 0, 0
	}
	if status.Agent != "" {
		t.agent = status.Agent
	}
	switch {
	case t.asked && !t.over:
		return deliver
	case status.Number > 0 && status.Number <= t.seen:
		return t.judgeCopy(status)
	case t.over && !(t.latest == api.TaskUnknown && status.State != api.TaskUnknown):
		return settledBefore(status)
	case status.Number == 0 && (status.State == t.latest || status.Reason == api.ReasonTaskDuplicate && t.latest > api.TaskStaging):
		return ignore
	case t.gap && status.Number > 0 && status.Number != t.seen+1:
		return ignore
	case (full || len(t.held) >= heldPerTaskMax) && !(status.Number == 0 && settles(status.State)):
		t.gap = t.gap || status.Number > 0
		return ignore
	}
	t.gap = t.gap && status.Number == 0
	return deliver
}

// foreign reports whether the status is an end that answers a question about an earlier
// launch of the ID: nobody has asked about this one.
func (t *task) foreign(status api.Status) bool {
	return status.Number == 0 && status.Reason == api.ReasonReconciliation && settles(status.State) && !t.questioned
}

// judgeCopy judges a status of a number that was taken in before.
func (t *task) judgeCopy(status api.Status) verdict {
	switch {
	case status.Number > t.number:
		return ignore // still with the scheduler
	case t.latest == api.TaskUnreachable && !t.over:
		return deliver // its agent is back
	}
	return acknowledge
}

// handled takes the first held status off: the scheduler has handled it. It reports
// whether the task is settled and forgotten. UNKNOWN settles only what nobody has told
// of since: the leader may say it a moment before the task's agent is back.
func (b *book) handled(t *task) (status api.Status, settled bool) {
	status = t.held[0]
	t.held = t.held[1:]
	b.held--
	t.busy, t.failures = false, 0
	t.state = status.State
	t.number = max(t.number, status.Number)
	if !settles(status.State) || status.State == api.TaskUnknown && len(t.held) > 0 {
		return status, false
	}
	b.forget(t)
	return status, true
}

// forget settles a task. Its end is remembered, so that nothing that is still on its way
// tells another one; one that was DROPPED may be tried again under its ID all the same.
func (b *book) forget(t *task) {
	if t.stray {
		return
	}
	b.held -= len(t.held)
	delete(b.tasks, t.id)
	if t.state != api.TaskUnknown {
		b.endings.add(t.id, t.state)
	}
}

// again prepares for a session: the leader tells the latest, so gaps do not matter.
func (b *book) again() {
	for _, t := range b.tasks { // order: irrelevant because each is changed by itself
		t.gap, t.accept = false, 0
	}
}

// unsettled lists what the leader is asked about (R8).
func (b *book) unsettled() []protocol.UnsettledTask {
	list := make([]protocol.UnsettledTask, 0, len(b.tasks))
	for _, t := range b.tasks { // order: irrelevant because the leader answers each
		if (t.known || t.asked) && !t.over {
			list = append(list, t.unsettled())
		}
	}
	return list
}

// unsettled is the question about the task.
func (t *task) unsettled() protocol.UnsettledTask {
	t.questioned = true
	state := t.state
	if state == api.TaskUnspecified {
		state = api.TaskStaging
	}
	return protocol.UnsettledTask{Task: t.id, Agent: t.agent, Number: t.number, State: state}
}

// refused lists the tasks that the numbered call wanted to launch.
func (b *book) refused(call uint64) []*task {
	var list []*task
	for _, t := range b.tasks { // order: irrelevant because each gets its own status
		if t.accept == call {
			list = append(list, t)
		}
	}
	return list
}

// kills lists the tasks whose end was asked for.
func (b *book) kills() []*task {
	var list []*task
	for _, t := range b.tasks { // order: irrelevant because each is its own call
		if t.kill && !t.over {
			list = append(list, t)
		}
	}
	return list
}

// endings remembers the latest tasks whose end was handled.
type endings struct {
	set  map[api.TaskID]api.TaskState
	ring []api.TaskID
	next int
}

func (e *endings) has(id api.TaskID) bool {
	_, ok := e.set[id]
	return ok
}

// remove forgets an end; its place in the ring stays taken.
func (e *endings) remove(id api.TaskID) { delete(e.set, id) }

func (e *endings) add(id api.TaskID, state api.TaskState) {
	if e.has(id) {
		return
	}
	if len(e.ring) < endingsMax {
		e.ring = append(e.ring, id)
	} else {
		delete(e.set, e.ring[e.next])
		e.ring[e.next] = id
		e.next = (e.next + 1) % endingsMax
	}
	e.set[id] = state
}

const (
	updateRetryMin = 100 * time.Millisecond
	updateRetryMax = 30 * time.Second
)

// pause is how long the scheduler is left alone after it failed to handle held[0].
func (t *task) pause() time.Duration {
	return min(updateRetryMin<<min(t.failures-1, 10), updateRetryMax)
}
