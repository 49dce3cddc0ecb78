// Package core makes an agent's decisions: what is launched, killed, reported and remembered. It owns the lives of
// tasks and executors from the launch to the acknowledgement of their end. The agent's shell owns the I/O and the disk.
//
// Durable before visible: an effect that others may act on is emitted only after Checkpointed says that its record is
// on disk. All durable state is made from records alone, so a core that is made from the records of another core
// continues where that one stood.
//
// It is pure: no clock, goroutine, lock, I/O or randomness; the same events give the same effects, byte for byte.
package core

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/value"
)

// Core decides for one agent. It is made of rooms. Each room owns a part of what this process knows, and calls only
// rooms that stand above it in this list. Core itself passes events to the rooms, and connects rooms that do not know
// each other. It is not safe for concurrent use: the shell's loop owns it.
type Core struct {
	*base
	leader    *leader    // the stream to the leading master; decides which messages count
	sandboxes *sandboxes // folders that outlive their tasks
	reports   *reports   // what the leader is told about the agent as a whole
	volumes   *volumes   // data that outlives tasks
	pressure  *pressure  // how much of the agent's resources is really used
	statuses  *statuses  // statuses of tasks, until they are acknowledged
	executors *executors // the runs of executors, from the fork to the last process
	launches  *launches  // tasks that are to run
	kills     *kills     // tasks that are to end
}

// New makes the core of an agent whose checkpoint holds these records. Started is to
// be its first event.
func New(config Config, records []Record) *Core {
	config = config.withDefaults()
	b := &base{config: config, state: newState()}
	for _, record := range records {
		b.state.apply(record)
	}
	b.state.allRead()
	c := &Core{base: b}
	c.leader = &leader{base: b, interval: config.HeartbeatInterval, timeout: config.SessionTimeout}
	c.sandboxes = &sandboxes{base: b, stubsOf: map[api.ExecutorRef]int{}, kept: map[api.TaskRef]time.Time{}, bytes: map[api.TaskRef]int64{}, emptied: map[api.TaskRef]bool{}, quiet: map[api.ExecutorRef]uint64{}}
	c.reports = &reports{base: b, leader: c.leader}
	c.volumes = &volumes{base: b, leader: c.leader, destroying: map[api.VolumeID]uint64{}, held: map[api.VolumeID]int64{}}
	c.pressure = &pressure{base: b, leader: c.leader, reports: c.reports}
	c.statuses = &statuses{base: b, leader: c.leader, sandboxes: c.sandboxes, volumes: c.volumes}
	c.executors = &executors{
		base: b, leader: c.leader, sandboxes: c.sandboxes, statuses: c.statuses, conns: map[Conn]Run{},
	}
	c.launches = &launches{
		base: b, leader: c.leader, reports: c.reports, pressure: c.pressure, statuses: c.statuses, executors: c.executors,
		sandboxes: c.sandboxes,
	}
	c.kills = &kills{base: b, leader: c.leader, statuses: c.statuses, executors: c.executors}
	return c
}

// Clone returns a copy that shares nothing with this core. Given the same events, both have the same effects.
func (c *Core) Clone() *Core { return value.Clone(c) }

// Dump returns everything that the core holds as text, for people.
func (c *Core) Dump() string { return value.Text(c) }

// Step handles one event and returns the effects for the shell to perform.
func (c *Core) Step(event Event) []Effect {
	c.now = event.At
	c.dispatch(event.What)
	c.fireTimers()
	effects := c.effects
	c.effects = nil
	return effects
}

func (c *Core) dispatch(what Happening) {
	switch w := what.(type) {
	case Started:
		c.recoverAgent(w)
	case LeaderOpened:
		c.leader.leaderOpened(w)
	case LeaderSaid:
		c.leaderSaid(w)
	case LeaderClosed:
		c.leaderClosed(w)
	case ExecutorOpened:
		if e := c.executors.acceptSession(w); e != nil {
			c.alignExecutor(e, w.Subscribe)
		}
	case ExecutorCalled:
		c.executors.executorCalled(w)
	case ExecutorClosed:
		c.executors.executorClosed(w)
	case ExecutorForked:
		c.executors.executorForked(w)
	case ExecutorFailed:
		c.executors.executorFailed(w)
	case ExecutorExited:
		c.executors.executorExited(w)
	case GroupsGone:
		c.executors.groupsGone(w)
	case TaskPrepared:
		c.launches.taskPrepared(w)
	case Checkpointed:
		c.checkpointed(w)
	case DiskRoom:
		c.diskRoom(w)
	case Sampled:
		c.takeSample(w)
	case Measured:
		c.takeMeasure(w)
	case VolumeDestroyed:
		c.volumes.volumeDestroyed(w)
	case Woken: // fireTimers fires the timers that are due
	case Away:
		c.away(w.Gap)
	}
}

// alignExecutor compares what an executor that has subscribed says with what the agent knows: statuses that are not
// acknowledged yet, tasks that the executor should have, and kills that it may have missed.
func (c *Core) alignExecutor(e *executor, s protocol.SubscribeExecutor) {
	for _, status := range s.Unacknowledged {
		c.statuses.takeStatus(e.conn, e.ref(), status)
	}
	for _, id := range s.Tasks {
		if e.tasks[id] == nil { // it has ended here, or was never launched
			c.emit(ToExecutor{e.conn, protocol.ExecutorKill{Task: id}})
		}
	}
	has := make(map[api.TaskID]bool, len(s.Tasks))
	for _, id := range s.Tasks {
		has[id] = true
	}
	for _, t := range e.tasks { // order: irrelevant because each is marked by itself
		t.handed = has[t.ref.Task] // a task that the executor does not name never reached it
	}
	for _, t := range e.tasksInOrder() {
		switch {
		case t.kill == nil:
			if c.disk.safe(t.launchRecord) && !t.handed { // an earlier agent process may have ended while fetching
				c.launches.prepareTask(t)
			}
			c.launches.handOverTask(t)
		case t.handed && t.press.pause > 0:
			c.kills.passKill(t)
		default:
			c.kills.actOnKill(t)
		}
	}
	// The order to end may not be on disk yet.
	if e.stopping() && !c.mustWait(c.disk.written, repeatShutdown{e.run(), e.conn}) {
		c.executors.sendShutdown(e)
	}
	c.startIdleTimer(e)
}

// takeSample takes a sample of what is really used, and kills the tasks that have to make room.
func (c *Core) takeSample(w Sampled) {
	c.reports.takeSample(&w.Usage)
	for _, victim := range c.pressure.judgeSample() {
		c.log("task is revoked", field("task", victim.task.ref.String()), field("cpus", victim.cpus), field("mem", victim.mem))
		grace := min(cmp.Or(victim.task.launch.Task.KillGrace, c.config.KillGrace), c.config.KillGrace)
		c.kills.storeKill(victim.task, grace, api.ReasonRevoked)
	}
}

// diskRoom notes how full the disk is. While it is full no launch is accepted (R14). When it is full or nearly full
// old sandboxes are removed.
func (c *Core) diskRoom(w DiskRoom) {
	c.reports.noteDisk(w)
	if w.Full || w.Low {
		c.sandboxes.makeRoom(w.Full)
	}
}

// takeMeasure takes the measured sizes of sandboxes and volumes. When sandboxes of ended tasks are too large together,
// the oldest are removed. A running task whose sandbox is larger than the disk that it asked for is killed, and so is
// whoever uses a volume that has grown beyond its size (R45).
func (c *Core) takeMeasure(w Measured) {
	c.sandboxes.keepMeasures(w.Sandboxes)
	for _, ref := range slices.SortedFunc(maps.Keys(w.Sandboxes), api.TaskRef.Compare) {
		if t := c.state.tasks[ref]; t != nil && t.diskMax() > 0 && w.Sandboxes[ref] > t.diskMax() {
			c.kills.outgrown(t, "its sandbox had more than the "+megabytes(t.diskMax())+" of disk that it asked for")
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.Volumes)) {
		if !c.volumes.keepMeasure(id, w.Volumes[id]) {
			continue
		}
		why := fmt.Sprintf("volume %s had more than its %s MB", id, c.state.volumes[id].Scalar)
		for _, e := range c.state.executorsInOrder() {
			c.executors.outgrown(e, id, why)
		}
		for _, t := range c.state.tasksInOrder() {
			if slices.Contains(volumesIn(t.launch.Resources), id) {
				c.kills.outgrown(t, why)
			}
		}
	}
}
