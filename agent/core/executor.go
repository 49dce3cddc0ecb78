package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
)

// executor is one run of an executor. As with tasks, the lower part begins anew with
// each process of the agent.
type executor struct {
	starting ExecutorStarting
	started  ExecutorStarted

	tasks map[api.TaskID]*task // launched on it and not ended
	phase phase
	conn  Conn // its session, 0 = none
	// subscribed says that this run was in a session, so its program works.
	subscribed bool
	stopping   bool // it was told to end, or will be once it listens
	killed     bool // SIGKILL is under way
	gone       bool // no process of it and its tasks is left
	// deadline is when the agent loses patience: with a start, a reconnection, a stop,
	// or an end of stream. Zero = never.
	deadline  time.Time
	idleSince time.Time // when its last task ended
	why       string    // it ended, in words
	reason    api.Reason
}

// phase is how far a run has come.
type phase uint8

const (
	phaseStarting    phase = iota // files, folder, fork
	phaseGated                    // the child waits for ExecutorStarted on disk
	phaseRegistering              // the program runs and should subscribe soon
	phaseRunning                  // it has subscribed; it may be away at the moment
	phaseEnding                   // its processes are being cleared away
)

func (e *executor) ref() api.ExecutorRef { return e.starting.Run.Executor }

func (e *executor) run() Run { return e.starting.Run }

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

// shutdownGrace is how long the executor may take to end.
func (c *Core) shutdownGrace(e *executor) time.Duration {
	return cmp.Or(e.starting.Executor.ShutdownGrace, c.config.KillGrace)
}
