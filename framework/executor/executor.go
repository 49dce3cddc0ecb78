// Package executor is the SDK for executors: the processes by which a framework runs
// its tasks on agents. Most need one function:
//
//	executor.Run(ctx, func(ctx context.Context, task *executor.Task) error { … })
//
// An executor that keeps state between tasks, or runs them in its own way, implements
// [Handler] and calls [Serve]. The package handles sessions with the agent, repeats until
// acknowledged, the agent's restarts and the order to end.
package executor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// Run serves the agent that started this process until the agent tells it to shut down. The function runs once per
// task, each in its own goroutine, many at the same time. If it returns nil, the task is FINISHED; if it returns an
// error, FAILED with the error's text; if its context has ended, KILLED. A panic makes the task FAILED too and ends no
// other task.
//
// Run returns nil after the agent's order to shut down and after the end of ctx. It returns an error if the agent
// stayed away for longer than the recovery timeout or refuses this executor, if Init failed, or if tasks did not end
// within their grace. In each case all tasks have been killed before.
//
// Options say what to do before the first task, and when no task has run for long:
//
//	executor.Run(ctx, answer, executor.Init(loadModel))
func Run(ctx context.Context, run func(ctx context.Context, task *Task) error, options ...Option) error {
	config, err := Environment()
	if err != nil {
		return err
	}
	for _, option := range options {
		option(&config)
	}
	return Serve(ctx, config, Functions(run))
}

// Main lets one binary be both scheduler and executor: it runs tasks if an agent started the process as an executor,
// and schedules otherwise.
func Main(ctx context.Context, run func(ctx context.Context, task *Task) error, schedule func(ctx context.Context) error, options ...Option) error {
	if Active() {
		return Run(ctx, run, options...)
	}
	return schedule(ctx)
}

// Active reports whether an agent started this process as an executor, so that one binary can be both scheduler and
// executor.
func Active() bool { return os.Getenv(protocol.ExecutorSocketEnv) != "" }

// Self describes this very binary as an executor of the given ID, started with the arguments; in that process [Active]
// is true. The agents must find the binary under the same path. Where they do not, [framework.Client.Self] sends it to
// them.
//
// [framework.Client.Self]: https://pkg.go.dev/github.com/tenderhq/tender/framework#Client.Self
func Self(id api.ExecutorID, args ...string) (*api.Executor, error) {
	if err := api.CheckID("executor", string(id)); err != nil {
		return nil, api.E("executor.self", api.Invalid, id, err)
	}
	path, err := os.Executable()
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return nil, api.E("executor.self", api.Unsupported, id, fmt.Errorf("this program's own path is not known: %w", err))
	}
	return &api.Executor{ID: id, Command: api.Command{Argv: append([]string{path}, args...)}}, nil
}
