// Package executor is the SDK for executors: the processes by which a framework runs
// its tasks on agents. Most need one function:
//
//	executor.Run(ctx, func(ctx context.Context, task *executor.Task) error { … })
//
// Sessions with the agent, repeats until acknowledged, the agent's restarts and the
// order to end are the package's business.
package executor

import (
	"context"

	"github.com/tenderhq/tender/api"
)

// Task is a task in the executor's hands.
type Task struct {
	api.Task
	// Sandbox is the task's own folder.
	Sandbox string
}

// Progress reports RUNNING again with data and a message for the scheduler.
func (t *Task) Progress(data []byte, message string) {}

// SetResult attaches data to the terminal status that follows the function's return.
func (t *Task) SetResult(data []byte) {}

// Run serves the agent that started this process until it is told to shut down. The
// function runs once per task, many at once, each in its own goroutine: nil is
// FINISHED, an error FAILED with its text, and when its context has ended KILLED.
func Run(ctx context.Context, run func(ctx context.Context, task *Task) error) error { return nil }

// Active reports whether this process was started by an agent as an executor, so that
// one binary can be scheduler and executor.
func Active() bool { return false }

// Self describes this very binary as an executor of the given ID, started with the
// arguments; where Active then is true.
func Self(id api.ExecutorID, args ...string) (*api.Executor, error) { return nil, nil }
