// Package core makes an agent's decisions: what is launched, killed, reported and
// remembered. It owns the lives of tasks and executors from the launch to the
// acknowledgement of their end; the agent's shell owns the world and the disk.
//
// Durable before visible: what others may act on is an effect only after
// Checkpointed says that its record is on disk. All that is durable is made by
// records alone, so a core that is made from the records of another one goes on
// where that one stood.
//
// It is pure: no clock, goroutine, lock, I/O or randomness; the same events give the
// same effects, byte for byte.
package core

import (
	"cmp"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/value"
)

// Config is what the core is made from. Zero fields mean the documented defaults.
type Config struct {
	// Agent is what the agent says of itself; its ID is the core's to fill in.
	Agent   api.Agent
	Version string
	// Sandboxes is the folder under which every executor and task has its own.
	Sandboxes string

	// HeartbeatInterval and SessionTimeout hold until a leader says otherwise. Default
	// 1 s and 5 s.
	HeartbeatInterval time.Duration
	SessionTimeout    time.Duration
	// ResendMin is the first pause before an unacknowledged status is sent again; it
	// doubles up to ResendMax. Default 1 s, 1 min.
	ResendMin time.Duration
	ResendMax time.Duration
	// KillGrace is for tasks and executors that name none. Default 5 s.
	KillGrace time.Duration
	// KillSlack is how much longer than the grace an executor may take before the agent
	// lends a hand with SIGKILL. Default 5 s.
	KillSlack time.Duration
	// ExecutorTimeout is how long an executor may take to subscribe after its start,
	// and to come back after a restart of the agent. Default 1 min.
	ExecutorTimeout time.Duration
	// ExecutorIdle is how long the built-in executor of a framework stays without a
	// task. Default 1 min. Short costs a start for the next task; long keeps a process.
	// A framework's own executor stays until it is shut down.
	ExecutorIdle time.Duration
	// RecoveryTimeout is how long executors wait for an agent that went away before
	// they kill their tasks. Default 15 min; negative = not at all.
	RecoveryTimeout time.Duration
	// StubsMax is how many ended tasks are remembered, and their sandboxes kept; the
	// oldest go first. Default 1000.
	StubsMax int
	// SandboxAge is how long the sandbox of an ended task is kept. Default 7 days.
	SandboxAge time.Duration
	// TasksMax is how many tasks one agent holds. A launch beyond it is DROPPED.
	// Default 100,000.
	TasksMax int
}

func (c Config) withDefaults() Config {
	c.HeartbeatInterval = cmp.Or(c.HeartbeatInterval, time.Second)
	c.SessionTimeout = cmp.Or(c.SessionTimeout, 5*time.Second)
	c.ResendMin = cmp.Or(c.ResendMin, time.Second)
	c.ResendMax = cmp.Or(c.ResendMax, time.Minute)
	c.KillGrace = cmp.Or(c.KillGrace, 5*time.Second)
	c.KillSlack = cmp.Or(c.KillSlack, 5*time.Second)
	c.ExecutorTimeout = cmp.Or(c.ExecutorTimeout, time.Minute)
	c.ExecutorIdle = cmp.Or(c.ExecutorIdle, time.Minute)
	c.RecoveryTimeout = max(cmp.Or(c.RecoveryTimeout, 15*time.Minute), 0)
	c.StubsMax = cmp.Or(c.StubsMax, 1000)
	c.SandboxAge = cmp.Or(c.SandboxAge, 7*24*time.Hour)
	c.TasksMax = cmp.Or(c.TasksMax, 100_000)
	return c
}

// Core is an agent's mind. Not safe for concurrent use: the shell's loop owns it.
type Core struct {
	config Config
	state  *state
	now    time.Time // of the event being stepped
	effect []Effect  // of the event being stepped

	written uint64   // the last record handed to the shell
	stored  uint64   // the last one that is on disk
	waiting []waiter // for records, in their order
	timers  timers

	leader   leader
	conns    map[Conn]*executor // sessions of executors
	stubsOf  map[api.ExecutorRef]int
	kept     map[api.TaskRef]time.Time // until when the sandbox of a stub is kept
	usage    *protocol.UsageReport     // the last sample
	sampling bool                      // one is under way
	pressure pressure
	// usageNext is the task that the next heartbeat's usage begins with, when not all fit.
	usageNext api.TaskRef
	sweeping  bool // a timer waits for the oldest sandbox
	diskFull  bool
	illegal   uint64 // statuses of executors that were no legal move
	unheard   uint64 // messages that came while there was no session to pass them on to
	identity  uint64 // number of the last Identity record
}

// waiter is what follows once a record is on disk.
type waiter struct {
	number uint64
	what   followUp
}

// New makes the core of an agent whose checkpoint holds these records. Started is to
// be its first event.
func New(config Config, records []Record) *Core {
	c := &Core{config: config.withDefaults(), state: newState(), conns: map[Conn]*executor{}, stubsOf: map[api.ExecutorRef]int{}}
	for _, record := range records {
		c.state.apply(record)
	}
	c.state.allRead()
	c.leader.reset(c.config)
	return c
}

// Clone is a core that stands where this one stands, and shares nothing with it: told the same, both have the same
// effects.
func (c *Core) Clone() *Core { return value.Clone(c) }

// Dump is all that the core holds, for people.
func (c *Core) Dump() string { return value.Text(c) }

// Step takes one event.
func (c *Core) Step(event Event) []Effect {
	c.now = event.At
	c.happened(event.What)
	c.fire()
	effects := c.effect
	c.effect = nil
	return effects
}

func (c *Core) happened(what Happening) {
	switch w := what.(type) {
	case Started:
		c.start(w)
	case LeaderOpened:
		c.leaderOpened(w)
	case LeaderSaid:
		c.leaderSaid(w)
	case LeaderClosed:
		c.leaderClosed(w)
	case ExecutorOpened:
		c.executorOpened(w)
	case ExecutorCalled:
		c.executorCalled(w)
	case ExecutorClosed:
		c.executorClosed(w)
	case ExecutorForked:
		c.executorForked(w)
	case ExecutorFailed:
		c.executorFailed(w)
	case ExecutorExited:
		c.executorExited(w)
	case GroupsGone:
		c.groupsGone(w)
	case TaskPrepared:
		c.taskPrepared(w)
	case Checkpointed:
		c.checkpointed(w)
	case DiskRoom:
		c.diskRoom(w)
	case Sampled:
		c.sampled(w)
	case VolumeDestroyed:
		c.volumeDestroyed(w)
	case Woken: // fire does what is due
	case Away:
		c.away(w.Gap)
	}
}

// Wake is when the core wants to be woken, zero for never. Asked after every batch.
func (c *Core) Wake() time.Time { return c.timers.first() }

// Records say what the core stands on, in as few as it takes: all records that it
// has asked to be written are covered.
func (c *Core) Records() []Record { return c.state.records() }

// Runs lists the runs of executors that had a process, for the shell to look for them
// before Started.
func (c *Core) Runs() []ExecutorStarted {
	var runs []ExecutorStarted
	for _, e := range c.state.executorsInOrder() {
		if e.started.Process.PID != 0 {
			runs = append(runs, e.started)
		}
	}
	return runs
}

// TaskView is what readers of a task's output need to know.
type TaskView struct {
	Sandbox         string
	ExecutorSandbox string // of the executor that runs it, or ran it
	Ended           bool
}

// Task looks a task up, also one that has ended and whose sandbox is still there.
func (c *Core) Task(ref api.TaskRef) (TaskView, bool) {
	if t := c.state.tasks[ref]; t != nil {
		return c.taskView(t.executor, ref.Task, t.ended()), true
	}
	if _, known := c.state.stubbed[ref]; !known {
		return TaskView{}, false
	}
	for _, stub := range c.state.stubs {
		if stub.TaskRef == ref {
			executor := api.ExecutorRef{Framework: ref.Framework, Executor: stub.Status.Executor}
			return c.taskView(executor, ref.Task, true), true
		}
	}
	return TaskView{}, false
}

func (c *Core) taskView(executor api.ExecutorRef, task api.TaskID, ended bool) TaskView {
	return TaskView{Sandbox: c.taskFolder(executor, task), ExecutorSandbox: c.executorFolder(executor), Ended: ended}
}

// Folders are the sandboxes that are in use or kept, of executors and of tasks.
func (c *Core) Folders() map[string]bool {
	folders := map[string]bool{}
	keep := func(executor api.ExecutorRef, task api.TaskID) {
		folders[c.executorFolder(executor)] = true
		folders[c.taskFolder(executor, task)] = true
	}
	for _, e := range c.state.executorsInOrder() {
		folders[c.executorFolder(e.ref())] = true
	}
	for _, t := range c.state.tasksInOrder() {
		keep(t.executor, t.ref.Task)
	}
	for _, stub := range c.state.stubs {
		keep(executorOf(stub), stub.Task)
	}
	return folders
}

// HasVolume says whether the agent has a volume: its data is in the folder of that name.
func (c *Core) HasVolume(id api.VolumeID) bool {
	_, has := c.state.volumes[id]
	return has
}

// Identity is who the agent is by now.
func (c *Core) Identity() Identity { return c.state.identity }

func (c *Core) emit(effect Effect) { c.effect = append(c.effect, effect) }

// put makes a record: it takes effect in the core now, and on disk some time later.
func (c *Core) put(record Record) uint64 {
	c.state.apply(record)
	c.written++
	c.emit(Checkpoint{Number: c.written, Record: record})
	if _, is := record.(Identity); is {
		c.identity = c.written
	}
	return c.written
}

func (c *Core) log(message string, fields ...Field) { c.emit(Log{message, fields}) }

func field[S ~string](name string, value S) Field { return Field{name, string(value)} }

// Counts are for meters.
type Counts struct {
	Tasks, Executors, Flying int
	Revoked                  uint64 // tasks, since this process began
	Illegal                  uint64 // statuses of executors that were no legal move, since this process began
	Unheard                  uint64 // messages for which there was no session, since this process began
	Registered               bool
}

// Counts are cheap to ask for, after every batch.
func (c *Core) Counts() Counts {
	return Counts{
		Tasks: len(c.state.tasks), Executors: len(c.state.executors), Flying: c.leader.flying, Registered: c.leader.registered,
		Revoked: c.pressure.revoked, Unheard: c.unheard, Illegal: c.illegal,
	}
}
