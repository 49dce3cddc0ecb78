package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/alarms"
	"github.com/tenderhq/tender/internal/protocol"
)

const (
	// heldPerTaskMax and heldMax bound statuses that wait for the scheduler. Beyond
	// them numbered ones are not taken in; their agents send them again.
	heldPerTaskMax = 256
	heldMax        = 1 << 16
	// unsettledPerPageMax keeps a page far below the size of a message.
	unsettledPerPageMax = 1000
)

const (
	updateRetryMin = 100 * time.Millisecond
	updateRetryMax = 30 * time.Second
)

// task is what the SDK remembers of a task until its end is handled.
type task struct {
	taskRef
	agent    api.AgentID
	origin   origin
	number   uint64        // of the last status that the scheduler has handled
	seen     uint64        // of the last status that was taken in
	state    api.TaskState // of the last status that the scheduler has handled
	latest   api.TaskState // of the last status that was taken in
	held     []api.Status  // taken in and not handled, in order
	delivery delivery      // of held[0]
	failures int           // of held[0], in a row
	accept   uint64        // number of the call that launched it, until it is heard of
	asked    bool          // by the user's Reconcile: the answer is told even when it is no news
	killing  killing
	// questioned: the leader was asked about it since it was launched. Without that an
	// answer is about an earlier launch of the same ID, which was DROPPED.
	questioned bool
	former     *former // that earlier launch, if its agent has dropped it
}

// taskRef names what is remembered of a task. What was forgotten and begun anew has another record.
type taskRef struct {
	id     api.TaskID
	record uint64
}

// origin is how the SDK came to know of a task.
type origin uint8

const (
	originNone     origin = iota // the user has named it
	originHeard                  // a status told of it: the leader is asked about it (R8)
	originLaunched               // by this process, on the task's agent
)

// delivery is how far a status has come on its way to the scheduler.
type delivery uint8

const (
	deliveryNone  delivery = iota
	deliveryBusy           // it is with the scheduler, or waits for another try or session
	deliveryLater          // it waits for Client.Acknowledge
	deliveryEarly          // it was acknowledged, and Update has not returned yet
)

// killing is the end that was asked for; it is repeated in every session (R12).
type killing struct {
	asked  bool
	graces protocol.KillGraces
}

// tasks holds the tasks that are not settled.
type tasks struct {
	open    map[api.TaskID]*task
	strays  map[uint64]*task   // by record: they tell of tasks that were refused here, beside those of the same ID
	refused map[api.TaskID]int // how many strays there are of an ID; no entry is 0
	endings endings
	held    int    // statuses in all tasks
	records uint64 // so far
	// sessions counts those that have begun: what was acknowledged in an earlier one may have been lost with it.
	sessions uint64
	retries  alarms.Alarms[taskRef] // of the first held statuses of tasks
	waiting  []taskRef              // with held statuses, to be told in the next session
}

func newTasks(records uint64) tasks {
	return tasks{
		open: make(map[api.TaskID]*task), strays: make(map[uint64]*task), refused: make(map[api.TaskID]int),
		endings: newEndings(), records: records, sessions: 1,
	}
}

// verdict says what to do with a status that came.
type verdict uint8

const (
	ignore      verdict = iota // no news, or no room
	acknowledge                // handled before, or after the end: tell its agent
	deliver                    // was put into held
)

func (t *tasks) newRecord(id api.TaskID) *task {
	t.records++
	return &task{taskRef: taskRef{id, t.records}}
}

// get returns what is remembered of the task, a new record if need be.
func (t *tasks) get(id api.TaskID) *task {
	one := t.open[id]
	if one == nil {
		one = t.newRecord(id)
		t.open[id] = one
	}
	return one
}

// find returns what the reference names, nil if that was forgotten.
func (t *tasks) find(ref taskRef) *task {
	if one := t.open[ref.id]; one != nil && one.record == ref.record {
		return one
	}
	return t.strays[ref.record]
}

// isUsed reports whether the ID is taken. An ID is never used twice, but for a task that never started (DROPPED). It stays
// taken until the scheduler was told that a launch of it was refused here, as that would be taken for the end of a later
// launch.
func (t *tasks) isUsed(id api.TaskID) bool {
	one := t.open[id]
	return one != nil && one.origin != originNone || t.refused[id] > 0 ||
		t.endings.has(id) && t.endings.states[id].state != api.TaskDropped
}

// launch notes a task that the numbered call launches.
func (t *tasks) launch(id api.TaskID, agent api.AgentID, call uint64) {
	one := t.get(id)
	one.agent, one.origin, one.questioned, one.former = agent, originLaunched, false, t.endings.states[id].former
	t.endings.remove(id) // it was DROPPED, and is tried again
	one.state, one.latest = api.TaskStaging, api.TaskStaging
	one.accept = call
}

// stray holds a status beside what is remembered of the task that has the ID.
func (t *tasks) stray(status api.Status) *task {
	one := t.newRecord(status.Task)
	t.strays[one.record] = one
	t.refused[one.id]++
	t.hold(one, status)
	return one
}

// forgetStray forgets a refusal that was told.
func (t *tasks) forgetStray(one *task) {
	delete(t.strays, one.record)
	if t.refused[one.id]--; t.refused[one.id] == 0 {
		delete(t.refused, one.id)
	}
}

// take judges a status and puts it into its task's held when it is to be delivered.
func (t *tasks) take(status api.Status) (*task, verdict) {
	one := t.open[status.Task]
	if one == nil {
		if t.endings.has(status.Task) {
			return nil, settledBefore(status)
		}
		one = t.get(status.Task)
		one.agent = status.Agent
	}
	if one.origin == originLaunched && !one.questioned && one.former.has(status) {
		return one, one.former.judge(t.sessions)
	}
	verdict := one.judge(status, t.held >= heldMax)
	one.origin, one.accept = max(one.origin, originHeard), 0
	if verdict == deliver {
		t.hold(one, status)
	}
	return one, verdict
}

// hold queues the status behind those that wait.
func (t *tasks) hold(one *task, status api.Status) {
	one.held = append(one.held, status)
	t.held++
	one.seen = max(one.seen, status.Number)
	one.latest = status.State
	one.asked = false
}

// settles reports whether nothing is to be awaited after the state.
func settles(state api.TaskState) bool { return state.Terminal() || state == api.TaskUnknown }

// isOver reports whether a status that settles the task was taken in.
func (t *task) isOver() bool { return settles(t.latest) }

// settledBefore: only what has a number awaits an acknowledgement.
func settledBefore(status api.Status) verdict {
	if status.Number > 0 {
		return acknowledge
	}
	return ignore
}

func (t *task) judge(status api.Status, full bool) verdict {
	switch elsewhere := t.agent != "" && status.Agent != t.agent; {
	case t.origin == originLaunched && (elsewhere && status.Agent != "" || t.isForeign(status)):
		return settledBefore(status) // of another life of this ID
	case elsewhere && status.Number > 0:
		t.seen, t.number = 0, 0
	}
	if status.Agent != "" {
		t.agent = status.Agent
	}
	switch {
	case status.Number > 0 && status.Previous > t.seen:
		return ignore // both come again, in order
	case t.asked && !t.isOver():
		return deliver
	case status.Number > 0 && status.Number <= t.seen:
		return t.judgeCopy(status)
	case t.isOver() && !(t.latest == api.TaskUnknown && status.State != api.TaskUnknown):
		return settledBefore(status)
	case status.Number == 0 && (status.State == t.latest || status.Reason == api.ReasonTaskDuplicate && t.latest > api.TaskStaging):
		return ignore
	case (full || len(t.held) >= heldPerTaskMax) && !(status.Number == 0 && settles(status.State)):
		return ignore
	}
	return deliver
}

// isForeign reports whether the status is an end that answers a question about an earlier
// launch of the ID: nobody has asked about this one.
func (t *task) isForeign(status api.Status) bool {
	return status.Number == 0 && status.Reason == api.ReasonReconciliation && settles(status.State) && !t.questioned
}

// judgeCopy judges a status of a number that was taken in before.
func (t *task) judgeCopy(status api.Status) verdict {
	switch {
	case status.Number > t.number:
		return ignore // still with the scheduler
	case t.latest == api.TaskUnreachable:
		return deliver // its agent is back
	}
	return acknowledge
}

// handled takes the first held status off: the scheduler has handled it, and it is acknowledged now, if there is a session. It
// reports whether the task is settled and forgotten. UNKNOWN settles only what nobody has told of since: the leader may say
// it a moment before the task's agent is back.
func (t *tasks) handled(one *task, acknowledged bool) (status api.Status, settled bool) {
	status = one.held[0]
	one.held = one.held[1:]
	t.held--
	one.delivery, one.failures = deliveryNone, 0
	one.state = status.State
	one.number = max(one.number, status.Number)
	if !settles(status.State) || status.State == api.TaskUnknown && len(one.held) > 0 {
		return status, false
	}
	session := uint64(0)
	if acknowledged {
		session = t.sessions
	}
	t.forget(one, taskEnd{one.state, formerOf(status, session)})
	return status, true
}

// forget settles a task. Its end is remembered, so that nothing that is still on its way
// tells another one; one that was DROPPED may be tried again under its ID all the same.
func (t *tasks) forget(one *task, how taskEnd) {
	if t.isStray(one) {
		t.forgetStray(one)
		return
	}
	t.held -= len(one.held)
	delete(t.open, one.id)
	if one.state != api.TaskUnknown {
		t.endings.add(one.id, how)
	}
}

func (t *tasks) isStray(one *task) bool { return t.open[one.id] != one }

// again prepares for a session: calls of an earlier one are not refused any more.
func (t *tasks) again() {
	t.sessions++
	for _, one := range t.open { // order: irrelevant because each is changed by itself
		one.accept = 0
	}
}

// those lists the tasks of which something holds, by their IDs.
func (t *tasks) those(holds func(*task) bool) []*task {
	var list []*task
	// order: irrelevant because the list is sorted below
	for _, one := range t.open {
		if holds(one) {
			list = append(list, one)
		}
	}
	slices.SortFunc(list, func(a, b *task) int { return cmp.Compare(a.id, b.id) })
	return list
}

// unsettled lists what the leader is asked about (R8).
func (t *tasks) unsettled() []protocol.UnsettledTask {
	list := t.those(func(one *task) bool { return (one.origin != originNone || one.asked) && !one.isOver() })
	questions := make([]protocol.UnsettledTask, len(list))
	for i, one := range list {
		questions[i] = one.question()
	}
	return questions
}

// question asks the leader about the task.
func (t *task) question() protocol.UnsettledTask {
	t.questioned = true
	return protocol.UnsettledTask{Task: t.id, Agent: t.agent, Number: t.number, State: cmp.Or(t.state, api.TaskStaging)}
}

// launchedBy lists the tasks that the numbered call wanted to launch.
func (t *tasks) launchedBy(call uint64) []*task {
	return t.those(func(one *task) bool { return one.accept == call })
}

// kills lists the tasks whose end was asked for.
func (t *tasks) kills() []*task {
	return t.those(func(one *task) bool { return one.killing.asked && !one.isOver() })
}

// takeWaiting takes out the tasks that have waited for a session.
func (t *tasks) takeWaiting() []*task {
	waiting := t.waiting
	t.waiting = nil
	var list []*task
	for _, ref := range waiting {
		if one := t.find(ref); one != nil {
			list = append(list, one)
		}
	}
	return list
}

// retryLater plans another try of the first held status, after a pause that grows with each failure, and returns the
// pause.
func (t *tasks) retryLater(one *task, now time.Time) time.Duration {
	one.failures++
	pause := min(updateRetryMin<<min(one.failures-1, 10), updateRetryMax)
	t.retries.Add(now.Add(pause), one.taskRef)
	return pause
}

// retryDue takes out a task whose first held status is to be tried again by now; nil: there is none.
func (t *tasks) retryDue(now time.Time) *task {
	for ref, is := t.retries.Due(now); is; ref, is = t.retries.Due(now) {
		if one := t.find(ref); one != nil {
			return one
		}
	}
	return nil
}
