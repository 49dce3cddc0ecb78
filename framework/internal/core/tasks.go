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
	// heldPerTaskMax and heldMax bound the statuses that wait for the scheduler. Beyond them numbered statuses are not
	// taken in; their agents send them again.
	heldPerTaskMax = 256
	heldMax        = 1 << 16
	// unsettledPerPageMax keeps a page far below the size of a message.
	unsettledPerPageMax = 1000
)

const (
	updateRetryMin = 100 * time.Millisecond
	updateRetryMax = 30 * time.Second
)

// task is what the SDK remembers of a task until the scheduler has handled its end.
type task struct {
	taskRef
	agent    api.AgentID
	origin   origin
	number   uint64        // of the last status that the scheduler has handled
	seen     uint64        // of the last status that was taken in
	state    api.TaskState // of the last status that the scheduler has handled
	latest   api.TaskState // of the last status that was taken in
	held     []api.Status  // taken in and not handled yet, in order
	delivery delivery      // how far held[0] has come
	failures int           // how often the scheduler has failed to handle held[0], in a row
	accept   uint64        // number of the call that launched the task, until a status of the task comes
	asked    bool          // the user's Reconcile has asked for it: the answer is told even if nothing has changed
	killing  killing
	// questioned says that the leader was asked about the task since it was launched. Otherwise an answer is about an
	// earlier launch of the same ID, which was DROPPED.
	questioned bool
	former     *former // that earlier launch, if its agent has dropped it
	session    uint64  // in which this process launched it, as tasks.sessions counts them
}

// taskRef identifies a task's record. If a task was forgotten and its ID begun anew, the new record is another one.
type taskRef struct {
	id     api.TaskID
	record uint64
}

// origin is how the SDK came to know of a task.
type origin uint8

const (
	originNone     origin = iota // only the user has named it
	originHeard                  // a status told of it; the leader is asked about it (R8)
	originLaunched               // this process has launched it, on the task's agent
)

// delivery says how far a status has come on its way to the scheduler.
type delivery uint8

const (
	deliveryNone  delivery = iota
	deliveryBusy           // the scheduler has it, or it waits for another try or for a session
	deliveryLater          // it waits for Client.Acknowledge
	deliveryEarly          // it was acknowledged, and Update has not returned yet
)

// killing is a kill that was asked for; it is repeated in every session (R12).
type killing struct {
	asked  bool
	graces protocol.KillGraces
}

// tasks holds the tasks whose end the scheduler has not handled.
type tasks struct {
	open    map[api.TaskID]*task
	strays  map[uint64]*task   // by record: tasks that were refused here, beside those with the same ID
	refused map[api.TaskID]int // how many strays there are of an ID; no entry is 0
	endings endings
	held    int    // statuses in all tasks
	records uint64 // number of records so far
	// sessions counts the sessions that have begun. What was acknowledged in an earlier session may have been lost with
	// it.
	sessions uint64
	retries  alarms.Alarms[taskRef] // when to try again to have a task's first held status handled
	waiting  []taskRef              // tasks with held statuses that are to be told in the next session
}

func newTasks(records uint64) *tasks {
	return &tasks{
		open: make(map[api.TaskID]*task), strays: make(map[uint64]*task), refused: make(map[api.TaskID]int),
		endings: newEndings(), records: records, sessions: 1,
	}
}

// verdict says what to do with a status that has come.
type verdict uint8

const (
	ignore      verdict = iota // it tells nothing new, or there is no room for it
	acknowledge                // the scheduler has handled it, or the task's end, before: tell its agent
	deliver                    // was put into held
)

func (t *tasks) newRecord(id api.TaskID) *task {
	t.records++
	return &task{taskRef: taskRef{id, t.records}}
}

// getTask returns the record of the task, a new one if there is none.
func (t *tasks) getTask(id api.TaskID) *task {
	known := t.open[id]
	if known == nil {
		known = t.newRecord(id)
		t.open[id] = known
	}
	return known
}

// findTask returns the record that the reference means; nil: it was forgotten.
func (t *tasks) findTask(ref taskRef) *task {
	if known := t.open[ref.id]; known != nil && known.record == ref.record {
		return known
	}
	return t.strays[ref.record]
}

// isUsed reports whether the ID is taken. An ID is never used twice, except for a task that never started (DROPPED). The
// ID stays taken until the scheduler was told of each launch of it that was refused here, because a refusal would be
// taken for the end of a later launch.
func (t *tasks) isUsed(id api.TaskID) bool {
	known := t.open[id]
	return known != nil && known.origin != originNone || t.refused[id] > 0 ||
		t.endings.has(id) && t.endings.states[id].state != api.TaskDropped
}

// noteLaunch notes that the call with this number launches a task.
func (t *tasks) noteLaunch(id api.TaskID, agent api.AgentID, call uint64) {
	known := t.getTask(id)
	known.agent, known.origin, known.questioned, known.former = agent, originLaunched, false, t.endings.states[id].former
	t.endings.remove(id) // an earlier launch was DROPPED, and the task is tried again
	known.state, known.latest = api.TaskStaging, api.TaskStaging
	known.accept, known.session = call, t.sessions
}

// addStray holds a status in a record of its own, beside the record of the task that has the ID.
func (t *tasks) addStray(status api.Status) *task {
	stray := t.newRecord(status.Task)
	t.strays[stray.record] = stray
	t.refused[stray.id]++
	t.holdStatus(stray, status)
	return stray
}

// forgetStray forgets a refusal that was told.
func (t *tasks) forgetStray(stray *task) {
	delete(t.strays, stray.record)
	if t.refused[stray.id]--; t.refused[stray.id] == 0 {
		delete(t.refused, stray.id)
	}
}

// judgeStatus judges a status and puts it into its task's held when it is to be delivered.
func (t *tasks) judgeStatus(status api.Status) (*task, verdict) {
	known := t.open[status.Task]
	if known == nil {
		if t.endings.has(status.Task) {
			return nil, settledBefore(status)
		}
		known = t.getTask(status.Task)
		known.agent = status.Agent
	}
	if known.former.has(status) && !known.neverCame(t.sessions) {
		return known, known.former.judge(t.sessions)
	}
	verdict := known.judge(status, t.held >= heldMax)
	known.origin, known.accept = max(known.origin, originHeard), 0
	if verdict == deliver {
		t.holdStatus(known, status)
	}
	return known, verdict
}

// neverCame reports whether a status of the former launch is the answer to a question about this one: this launch never
// came to the leader. In the session of the launch it is none, however late it comes, because there the launch goes
// before the question.
func (t *task) neverCame(session uint64) bool {
	return t.origin == originLaunched && t.questioned && t.session != session
}

// holdStatus queues the status behind those of its task that wait.
func (t *tasks) holdStatus(known *task, status api.Status) {
	known.held = append(known.held, status)
	t.held++
	known.seen = max(known.seen, status.Number)
	known.latest = status.State
	known.asked = false
}

// isOver reports whether a status that settles the task was taken in.
func (t *task) isOver() bool { return t.latest.Settled() }

// settledBefore returns the verdict on a status whose task was settled before. Only a status with a number is
// acknowledged.
func settledBefore(status api.Status) verdict {
	if status.Number > 0 {
		return acknowledge
	}
	return ignore
}

func (t *task) judge(status api.Status, full bool) verdict {
	switch elsewhere := t.agent != "" && status.Agent != t.agent; {
	case t.origin == originLaunched && (elsewhere && status.Agent != "" || t.isForeign(status)):
		return settledBefore(status) // the status belongs to another launch of this ID
	case elsewhere && status.Number > 0:
		t.seen, t.number = 0, 0
	}
	if status.Agent != "" {
		t.agent = status.Agent
	}
	switch {
	case status.Number > 0 && status.Previous > t.seen:
		return ignore // the missing status and this one come again, in order
	case status.Number > 0 && status.Number <= t.seen && status.Reason != api.ReasonReconciliation:
		return t.judgeCopy(status) // its agent has sent it again: it is no answer to what was asked
	case t.asked && !t.isOver():
		return deliver
	case status.Number > 0 && status.Number <= t.seen:
		return t.judgeCopy(status)
	case t.isOver() && !(t.latest == api.TaskUnknown && status.State != api.TaskUnknown):
		return ignore // the scheduler still has the end; once it has handled that, the next copy is acknowledged
	case status.Number == 0 && (status.State == t.latest || status.Reason == api.ReasonTaskDuplicate && t.latest > api.TaskStaging):
		return ignore
	case (full || len(t.held) >= heldPerTaskMax) && !(status.Number == 0 && status.State.Settled()):
		return ignore
	}
	return deliver
}

// isForeign reports whether the status is the answer to a question about an earlier launch of the ID, and that launch's
// end: about the present launch nobody has asked yet. Such an answer has no number, and what agents and executors tell
// themselves has one.
func (t *task) isForeign(status api.Status) bool {
	answer := status.Reason == api.ReasonReconciliation || status.Source == api.MoverAgent || status.Source == api.MoverExecutor
	return status.Number == 0 && answer && status.State.Settled() && !t.questioned
}

// judgeCopy judges a status whose number was taken in before.
func (t *task) judgeCopy(status api.Status) verdict {
	switch {
	case status.Number > t.number:
		return ignore // the scheduler still has it
	case t.latest == api.TaskUnreachable:
		return deliver // the task's agent is back
	}
	return acknowledge
}

// removeHandled removes the first held status, because the scheduler has handled it. acknowledged says that it is
// acknowledged now, as there is a session. settled: the task is settled, and forgotten. UNKNOWN
// settles a task only if no later status waits, because the leader may say UNKNOWN a moment before the task's agent is
// back.
func (t *tasks) removeHandled(known *task, acknowledged bool) (status api.Status, settled bool) {
	status = known.held[0]
	known.held = known.held[1:]
	t.held--
	known.delivery, known.failures = deliveryNone, 0
	known.state = status.State
	known.number = max(known.number, status.Number)
	if !status.State.Settled() || status.State == api.TaskUnknown && len(known.held) > 0 {
		return status, false
	}
	session := uint64(0)
	if acknowledged {
		session = t.sessions
	}
	t.forgetTask(known, taskEnd{known.state, formerOf(status, session)})
	return status, true
}

// forgetTask forgets a settled task. Its end is remembered, so that a copy that is still on its way does not tell it again.
// A task that was DROPPED may nevertheless be launched again under its ID.
func (t *tasks) forgetTask(known *task, how taskEnd) {
	if t.isStray(known) {
		t.forgetStray(known)
		return
	}
	t.held -= len(known.held)
	delete(t.open, known.id)
	if known.state != api.TaskUnknown {
		t.endings.add(known.id, how)
	}
}

func (t *tasks) isStray(known *task) bool { return t.open[known.id] != known }

// beginSession prepares the records for a new session, in which calls of earlier sessions can no longer be refused.
func (t *tasks) beginSession() {
	t.sessions++
	for _, known := range t.open { // order: irrelevant because each is changed by itself
		known.accept = 0
	}
}

// tasksThat lists the tasks for which holds returns true, sorted by ID.
func (t *tasks) tasksThat(holds func(*task) bool) []*task {
	var list []*task
	// order: irrelevant because the list is sorted below
	for _, known := range t.open {
		if holds(known) {
			list = append(list, known)
		}
	}
	slices.SortFunc(list, func(a, b *task) int { return cmp.Compare(a.id, b.id) })
	return list
}

// listUnsettled lists the tasks that the leader is asked about (R8).
func (t *tasks) listUnsettled() []protocol.UnsettledTask {
	list := t.tasksThat(func(known *task) bool { return (known.origin != originNone || known.asked) && !known.isOver() })
	questions := make([]protocol.UnsettledTask, len(list))
	for i, known := range list {
		questions[i] = known.question()
	}
	return questions
}

// question returns the question about the task for the leader.
func (t *task) question() protocol.UnsettledTask {
	t.questioned = true
	return protocol.UnsettledTask{Task: t.id, Agent: t.agent, Number: t.number, State: cmp.Or(t.state, api.TaskStaging)}
}

// launchedBy lists the tasks that the call with this number was to launch.
func (t *tasks) launchedBy(call uint64) []*task {
	return t.tasksThat(func(known *task) bool { return known.accept == call })
}

// listKilled lists the tasks whose end was asked for.
func (t *tasks) listKilled() []*task {
	return t.tasksThat(func(known *task) bool { return known.killing.asked && !known.isOver() })
}

// takeWaiting removes and returns the tasks that have waited for a session.
func (t *tasks) takeWaiting() []*task {
	waiting := t.waiting
	t.waiting = nil
	var list []*task
	for _, ref := range waiting {
		if known := t.findTask(ref); known != nil {
			list = append(list, known)
		}
	}
	return list
}

// retryLater plans another try to have the first held status handled, after a pause that grows with each failure. It
// returns the pause.
func (t *tasks) retryLater(known *task, now time.Time) time.Duration {
	known.failures++
	pause := min(updateRetryMin<<min(known.failures-1, 10), updateRetryMax)
	t.retries.Add(now.Add(pause), known.taskRef)
	return pause
}

// retryDue removes and returns a task whose first held status is to be tried again by now; nil: there is none.
func (t *tasks) retryDue(now time.Time) *task {
	for ref, is := t.retries.Due(now); is; ref, is = t.retries.Due(now) {
		if known := t.findTask(ref); known != nil {
			return known
		}
	}
	return nil
}
