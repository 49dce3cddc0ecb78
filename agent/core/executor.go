package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/invariant"
)

// executor is one run of an executor. The upper fields come from records. The lower ones belong to this process and
// begin anew with it.
type executor struct {
	starting ExecutorStarting
	started  ExecutorStarted
	// order is the order to end; nil: there is none. orderedAt is how many launches there had been when it was given:
	// no later launch was handed to this run.
	order     *ExecutorStopping
	orderedAt uint64

	tasks map[api.TaskID]*task // tasks that were launched on it and have not ended
	// held counts for each volume how many of these tasks hold it, so that an end costs nothing per task in flight.
	held  map[api.VolumeID]int
	phase phase
	conn  Conn // its session, 0 = none
	// subscribed says that this run has had a session at some time, so its program works.
	subscribed bool
	// deadline is until when the agent waits for a start, a reconnection, a stop, or the end of a stream. Zero means
	// for ever.
	deadline  time.Time
	idleSince time.Time // when its last task ended
	why       string    // why the run ended, in words
	reason    api.Reason
	// former is why the previous run of this executor ended, until a leader was told; "" = there is nothing to tell.
	former string
}

// phase is how far a run has come.
type phase uint8

const (
	phaseStarting    phase = iota // its files and its folder are made, and the process is forked
	phaseGated                    // the child waits for ExecutorStarted on disk
	phaseRegistering              // the program runs and should subscribe soon
	phaseRunning                  // it has subscribed; it may be away at the moment
	phaseEnding                   // its processes are being killed with SIGKILL
	phaseGone                     // none of its processes is left; its stream is read to the end
)

// phaseMoves lists for each phase those that may follow it. Any other move is a bug.
var phaseMoves = [...][]phase{
	phaseStarting:    {phaseGated, phaseRunning, phaseEnding}, // running: the agent was restarted and found it alive
	phaseGated:       {phaseRegistering, phaseEnding},
	phaseRegistering: {phaseRunning, phaseEnding},
	phaseRunning:     {phaseRunning, phaseEnding}, // running: it subscribed again on a new stream
	phaseEnding:      {phaseGone},
	phaseGone:        nil,
}

func (p phase) String() string {
	return [...]string{"starting", "gated", "registering", "running", "ending", "gone"}[p]
}

func (e *executor) moveTo(next phase) {
	invariant.Check(slices.Contains(phaseMoves[e.phase], next), "executor %s can't go from %s to %s", e.ref(), e.phase, next)
	e.phase = next
}

// ending says whether the agent has begun to kill all processes of the run, or has done so.
func (e *executor) ending() bool { return e.phase >= phaseEnding }

func (e *executor) ref() api.ExecutorRef { return e.starting.Run.Executor }

func (e *executor) run() Run { return e.starting.Run }

// stopping says whether the run was ordered to end by itself. It may not have been told yet.
func (e *executor) stopping() bool { return e.order != nil && !e.order.Kill }

// launchedAfterOrder says whether a task was launched after this run had been ordered to end. Such a task was never
// handed to this run.
func (e *executor) launchedAfterOrder(t *task) bool { return e.order != nil && t.order > e.orderedAt }

// listening says whether the executor has a session, so that events can be sent to it.
func (e *executor) listening() bool { return e.phase == phaseRunning && e.conn != 0 }

func (e *executor) addTask(t *task) {
	e.tasks[t.ref.Task] = t
	for _, id := range volumesIn(t.launch.Resources) {
		if e.held == nil {
			e.held = map[api.VolumeID]int{}
		}
		e.held[id]++
	}
}

// removeTask takes a task off that has ended. It returns the volumes of the task that the executor and its other tasks
// do not hold.
func (e *executor) removeTask(t *task) (unneeded []api.VolumeID) {
	delete(e.tasks, t.ref.Task)
	for _, id := range volumesIn(t.launch.Resources) {
		if e.held[id]--; e.held[id] == 0 {
			delete(e.held, id)
		}
		if !e.holds(id) {
			unneeded = append(unneeded, id)
		}
	}
	return unneeded
}

// holds says whether the executor, or one of its tasks that has not ended, holds the volume.
func (e *executor) holds(id api.VolumeID) bool {
	return e.held[id] > 0 || slices.Contains(volumesIn(e.starting.Executor.Resources), id)
}

func (e *executor) tasksInOrder() []*task {
	tasks := make([]*task, 0, len(e.tasks))
	for _, t := range e.tasks {
		tasks = append(tasks, t)
	}
	slices.SortFunc(tasks, func(a, b *task) int { return cmp.Compare(a.order, b.order) })
	return tasks
}
