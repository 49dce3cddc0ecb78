package core

import (
	"cmp"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// task is one task that has not been forgotten. The upper fields are what records make of it; the lower ones are this
// process's own and begin anew with it.
type task struct {
	ref      api.TaskRef
	executor api.ExecutorRef
	launch   TaskLaunched
	order    uint64     // of the launch among all
	latest   api.Status // number 0 and STAGING until the first one of this agent
	unsettled
	// heard is the executor's highest number. A status is taken once.
	heard uint64
	group Process // the task's own process group; 0 = none, or not known yet
	kill  *TaskKilled
	// executorForgotten: the records say that its executor was forgotten, and not what became of the task.
	executorForgotten bool

	launchRecord  uint64 // the number of its launch; 0 = an earlier process wrote it
	killRecord    uint64 // the number of its kill; 0 = as above
	handed        bool   // to the executor, or it may have been by an earlier process
	ignored       uint64 // the executor's highest number that was no legal move
	illegalLogged bool   // the log has a line about such a move
	readiness
	flight   flight
	press    press     // how its end is brought about, while it is killed
	deadline time.Time // when its time to run is over; zero = never, or it has not begun
}

// unsettled is what its framework has not acknowledged of a task.
type unsettled struct {
	unacked  []api.Status        // oldest first
	progress bool                // the latest is a report of progress: the next one may take its place
	unheard  acknowledgeExecutor // what its executor is not answered while too much waits; conn 0: nothing
	// durable is the latest status that is on disk while newer ones are on their way there; nil: the latest of all is.
	durable *api.Status
}

// readiness is what is there of all that a task needs before its start.
type readiness struct {
	files  files
	pulled string // what its image is, with the digest; "" = not known to this process, or it has none
	given  given
}

// press is how far the agent has come with ending a killed task that does not end.
type press struct {
	killBy  time.Time     // when its grace is over; zero = its executor was not asked to end it yet
	next    time.Time     // when the agent acts next
	pause   time.Duration // how long it waits for that; 0 = it has not acted yet
	repeats int           // how often the kill was repeated
}

// flight is how far a task's statuses have come on their way to the leader.
type flight struct {
	stored  uint64        // the highest status on disk
	conn    Conn          // the session in which they were sent; 0 = none
	sent    uint64        // the highest status that was sent there
	under   bool          // under way: what was sent comes again until it is acknowledged
	bytes   int           // of what was sent since that began
	watches uint64        // counts its pauses: only the end of the last one counts
	pause   time.Duration // until it is sent again
}

// files says whether the task's files are there.
type files uint8

const (
	filesAbsent files = iota
	filesComing
	filesReady
)

func (f files) String() string { return [...]string{"absent", "coming", "ready"}[f] }

// unackedMax is how many statuses of one task wait for acknowledgement, and unackedBytesMax how large they are. Beyond
// either the newest progress takes the place of the one before, and whatever else its executor tells is taken, but not
// answered: an executor keeps a bounded number of reports, and waits. Of one that does not wait the newest RUNNING takes
// the place of the one before from twice as many on. No other state is ever lost. (Protocol rule R34.)
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
		State: api.TaskStaging, Source: api.MoverMaster, At: launch.At, Given: api.Given{GPUs: launch.GPUs},
	}
	return t
}

func (t *task) launchID() launchID { return launchID{t.ref, t.order} }

func (t *task) ended() bool { return t.latest.State.Terminal() }

// revocable says that the task may be ended to make room.
func (t *task) revocable() bool { return t.launch.Resources.HasRevocable() }

// diskMax is how many bytes of disk the task has asked for; 0 = it has not said. Its volumes are beside that.
func (t *task) diskMax() int64 {
	disk := t.launch.Resources.Filter(func(l api.Label) bool { return l.Name == "disk" && l.Volume == "" })
	return int64(disk.Scalar("disk")) << 20 / 1000
}

// megabytes are bytes in words, in the unit that resources are asked for.
func megabytes(bytes int64) string { return api.Milli(bytes*1000>>20).String() + " MB" }

// image is what the task's image is, with the digest; "" = not known yet, or it has none.
func (t *task) image() string { return cmp.Or(t.pulled, t.latest.Image) }

// crowded says whether so many statuses wait for acknowledgement that not each report of progress is kept any more, and
// executors are to wait.
func (t *task) crowded() bool { return t.exceeds(1) }

// exceeds says whether so many times as many wait as may.
func (t *task) exceeds(times int) bool {
	bytes := 0
	for _, status := range t.unacked {
		bytes += protocol.StatusBytes(status)
	}
	return len(t.unacked) > times*unackedMax || bytes > times*unackedBytesMax
}

// replaces says whether the status takes the place of the newest one that waits.
func (t *task) replaces(r TaskStatus) bool {
	last := len(t.unacked) - 1
	if last < 0 || r.Status.State != api.TaskRunning || t.unacked[last].State != api.TaskRunning {
		return false
	}
	return r.Progress && t.progress && t.crowded() || t.exceeds(2)
}

// take adds a status.
func (t *task) take(r TaskStatus) {
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

// statuses lists those from first to last that are not acknowledged, as the leader is told of them: each names the one
// before it, so that nobody takes it in without that one.
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

// reported is the latest status that is on disk, as the report tells it. What is on its way there may be lost yet: were it
// told, the agent's next process could run a task whose end its framework has heard. It is told as soon as it is on disk.
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

// next is the number of the status to come.
func (t *task) next() uint64 { return t.latest.Number + 1 }

// records say what the task is, for a compacted checkpoint.
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
