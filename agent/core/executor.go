package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/invariant"
)

// executor is one run of an executor. The upper fields are what records make of it, the lower ones are this process's
// own and begin anew with it.
type executor struct {
	starting ExecutorStarting
	started  ExecutorStarted
	// order is the order to end; nil: there is none. orderedAt is how many launches there had been when it was given:
	// none of the later ones was handed to this run.
	order     *ExecutorStopping
	orderedAt uint64

	tasks map[api.TaskID]*task // launched on it and not ended
	phase phase
	conn  Conn // its session, 0 = none
	// subscribed says that this run was in a session, so its program works.
	subscribed bool
	secrets    bool // it knows those of tasks
	// deadline is until when the agent waits: for a start, a reconnection, a stop, or the end of a stream. Zero = for
	// ever.
	deadline  time.Time
	idleSince time.Time // when its last task ended
	why       string    // why it ended, in words
	reason    api.Reason
	// former is why the run before it ended, until a leader was told of that; "" = there is nothing to tell.
	former string
}

// phase is how far a run has come.
type phase uint8

const (
	phaseStarting    phase = iota // files, folder, fork
	phaseGated                    // the child waits for ExecutorStarted on disk
	phaseRegistering              // the program runs and should subscribe soon
	phaseRunning                  // it has subscribed; it may be away at the moment
	phaseEnding                   // its processes are being cleared away with SIGKILL
	phaseGone                     // none of them is left; its stream is read to the end
)

// phaseMoves are the phases that can follow one. Anything else is a mistake of ours.
var phaseMoves = [...][]phase{
	phaseStarting:    {phaseGated, phaseRunning, phaseEnding}, // running: it was found alive by an agent that came back
	phaseGated:       {phaseRegistering, phaseEnding},
	phaseRegistering: {phaseRunning, phaseEnding},
	phaseRunning:     {phaseRunning, phaseEnding}, // running: it came back with a new stream
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

// ending says whether the end of all its processes has begun.
func (e *executor) ending() bool { return e.phase >= phaseEnding }

func (e *executor) ref() api.ExecutorRef { return e.starting.Run.Executor }

func (e *executor) run() Run { return e.starting.Run }

// stopping says whether it was told to end by itself, or will be once it listens.
func (e *executor) stopping() bool { return e.order != nil && !e.order.Kill }

// launchedAfterOrder says whether a task was launched when this run had been ordered to end, and so took no tasks any
// more.
func (e *executor) launchedAfterOrder(t *task) bool { return e.order != nil && t.order > e.orderedAt }

// listening says whether the executor can be told something.
func (e *executor) listening() bool { return e.phase == phaseRunning && e.conn != 0 }

func (e *executor) tasksInOrder() []*task {
	tasks := make([]*task, 0, len(e.tasks))
	for _, t := range e.tasks {
		tasks = append(tasks, t)
	}
	slices.SortFunc(tasks, func(a, b *task) int { return cmp.Compare(a.order, b.order) })
	return tasks
}
