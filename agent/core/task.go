package core

import (
	"cmp"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// task is one task that has not been forgotten. The upper fields come from records. The lower ones belong to this
// process and begin anew with it.
type task struct {
	ref      api.TaskRef
	executor api.ExecutorRef
	launch   TaskLaunched
	order    uint64     // the number of this launch among all launches
	latest   api.Status // number 0 and STAGING until the agent has a first status
	unsettled
	// heard is the highest number that the executor gave a status. A status is taken once.
	heard uint64
	group Process // the task's own process group; 0 = none, or not known yet
	kill  *TaskKilled
	// executorForgotten: the records say that the executor was forgotten, but not what became of the task.
	executorForgotten bool

	launchRecord  uint64 // the number of the record of its launch; 0 = an earlier process wrote it
	killRecord    uint64 // the number of the record of its kill; 0 = as above
	handed        bool   // it was handed to the executor, or an earlier process may have done so
	ignored       uint64 // the highest number of an executor's status that was an illegal move
	illegalLogged bool   // such a move was logged
	readiness
	flight   flight
	press    press     // how far the agent has come with ending it, while it is being killed
	deadline time.Time // when its time to run is over; zero = it has no limit, or has not begun
}

// unsettled is what the framework has not acknowledged of a task.
type unsettled struct {
	unacked  []api.Status        // oldest first
	progress bool                // the latest is a report of progress; the next one may replace it
	unheard  acknowledgeExecutor // the answer to the executor that is kept back while too much waits; conn 0: none
	// durable is the latest status that is on disk, while newer ones are not yet; nil: the latest status is on disk.
	durable *api.Status
}

// readiness says what is there of all that a task needs before its start.
type readiness struct {
	files  files
	pulled string // its image with the digest; "" = this process does not know it, or the task has none
	given  given
}

// press is how far the agent has come with ending a killed task.
type press struct {
	killBy  time.Time     // when its grace is over; zero = its executor was not asked to end it yet
	next    time.Time     // when the agent acts next
	pause   time.Duration // how long the agent waits until then; 0 = it has not acted yet
	repeats int           // how often the kill was repeated
}

// flight is how far a task's statuses have come on their way to the leader.
type flight struct {
	stored  uint64        // the highest status on disk
	conn    Conn          // the session in which they were sent; 0 = none
	sent    uint64        // the highest status that was sent there
	under   bool          // what was sent is sent again until it is acknowledged
	bytes   int           // the bytes that were sent since that began
	watches uint64        // counts the pauses; only the timer of the last one counts
	pause   time.Duration // how long until it is sent again
}

// files says whether the task's files are there.
type files uint8

const (
	filesAbsent files = iota
	filesComing
	filesReady
)

func (f files) String() string { return [...]string{"absent", "coming", "ready"}[f] }

// unackedMax is how many statuses of one task wait for acknowledgement, and unackedBytesMax how many bytes they may
// have. Beyond either the newest report of progress replaces the one before. Whatever else the executor reports is
// taken but not answered; the executor keeps a bounded number of unanswered reports and then waits. If it does not
// wait, then beyond twice these limits the newest RUNNING replaces the one before. No other state is ever lost.
// (Protocol rule R34.)
const (
	unackedMax      = 64
	unackedBytesMax = 512 << 10
)

func newTask(launch TaskLaunched, agent api.AgentID) *task {
	t := &task{
		ref:      api.TaskRef{Framework: launch.Framework, Task: launch.Task.ID},
		executor: api.ExecutorRef{Framework: launch.Framework, Executor: launch.Task.ExecutorID()},
		launch:   launch,
	}
	t.latest = api.Status{
		Framework: launch.Framework, Task: launch.Task.ID, Agent: agent, Executor: t.executor.Executor,
		State: api.TaskStaging, Source: api.MoverMaster, At: launch.At, Launch: launch.id(), Given: api.Given{GPUs: launch.GPUs},
	}
	return t
}

func (l TaskLaunched) id() api.LaunchID { return api.LaunchID{Term: l.Term, Number: l.Number} }

func (t *task) taskLaunch() TaskLaunch { return TaskLaunch{t.ref, t.launch.id()} }

func (t *task) ended() bool { return t.latest.State.Terminal() }

// revocable says whether the task may be ended to make room.
func (t *task) revocable() bool { return t.launch.Resources.HasRevocable() }

// diskMax is how many bytes of disk the task has asked for, without its volumes; 0 = it has not said.
func (t *task) diskMax() int64 {
	disk := t.launch.Resources.Filter(func(l api.Label) bool { return l.Name == "disk" && l.Volume == "" })
	return int64(disk.Scalar("disk")) << 20 / 1000
}

// megabytes writes a number of bytes in the unit in which resources are asked for.
func megabytes(bytes int64) string { return api.Milli(bytes*1000>>20).String() + " MB" }

// image returns the task's image with the digest; "" = it is not known yet, or the task has none.
func (t *task) image() string { return cmp.Or(t.pulled, t.latest.Image) }

// crowded says whether so many statuses wait for acknowledgement that reports of progress replace each other and
// executors have to wait.
func (t *task) crowded() bool { return t.exceeds(1) }

// exceeds says whether more than the given multiple of the limits waits for acknowledgement.
func (t *task) exceeds(times int) bool {
	bytes := 0
	for _, status := range t.unacked {
		bytes += protocol.StatusBytes(status)
	}
	return len(t.unacked) > times*unackedMax || bytes > times*unackedBytesMax
}

// replaces says whether the status replaces the newest one that waits.
func (t *task) replaces(r TaskStatus) bool {
	last := len(t.unacked) - 1
	if last < 0 || r.Status.State != api.TaskRunning || t.unacked[last].State != api.TaskRunning {
		return false
	}
	return r.Progress && t.progress && t.crowded() || t.exceeds(2)
}

// addStatus adds a status, or replaces the newest one by it.
func (t *task) addStatus(r TaskStatus) {
	t.heard = max(t.heard, r.ExecutorNumber)
	if r.Group.PID != 0 {
		t.group = r.Group
	}
	replaces := t.replaces(r)
	if before := t.latest; t.durable == nil {
		t.durable = &before
	}
	t.latest, t.progress = r.Status, r.Progress
	if t.launch.Task.MaxCompletionTime > 0 && t.launch.Began.IsZero() && r.Status.State == api.TaskRunning {
		t.launch.Began = r.Status.At
	}
	if replaces {
		t.unacked[len(t.unacked)-1] = r.Status
		return
	}
	t.unacked = append(t.unacked, r.Status)
}

// statuses returns the unacknowledged statuses from first to last, as the leader is told them: each names the one
// before it, so that nobody accepts it without that one.
func (t *task) statuses(first, last uint64) []api.Status {
	var list []api.Status
	previous := uint64(0)
	for _, status := range t.unacked {
		status.Previous, previous = previous, status.Number
		if status.Number >= first && status.Number <= last {
			list = append(list, status)
		}
	}
	return list
}

// stored notes that the task's statuses up to that number are on disk.
func (t *task) stored(number uint64) {
	t.flight.stored = max(t.flight.stored, number)
	if t.latest.Number <= t.flight.stored {
		t.durable = nil
		return
	}
	for _, status := range t.unacked {
		if status.Number <= t.flight.stored && status.Number > t.durable.Number {
			t.durable = &status
		}
	}
}

// reported returns the latest status that is on disk, which the report contains. A newer one could still be lost: if it
// were told, the agent's next process could run a task of whose end the framework has been told. It is sent as soon as
// it is on disk.
func (t *task) reported() api.Status {
	told := t.latest
	if t.durable != nil {
		told = *t.durable
	}
	for i, status := range t.unacked {
		if status.Number == told.Number && i > 0 {
			told.Previous = t.unacked[i-1].Number
		}
	}
	return told
}

// next returns the number of the task's next status.
func (t *task) next() uint64 { return t.latest.Number + 1 }

// records returns the task as records, for a compacted checkpoint.
func (t *task) records() []Record {
	records := []Record{t.launch}
	if t.kill != nil {
		records = append(records, *t.kill)
	}
	if t.group.PID != 0 {
		records = append(records, TaskGroup{t.ref, t.group})
	}
	if len(t.unacked) == 0 && t.latest.Number > 0 {
		records = append(records, TaskStatus{Status: t.latest, ExecutorNumber: t.heard}, TaskAcknowledged{t.ref, t.latest.Number})
	}
	for i, status := range t.unacked {
		records = append(records, TaskStatus{Status: status, ExecutorNumber: t.heard, Progress: t.progress && i == len(t.unacked)-1})
	}
	return records
}
