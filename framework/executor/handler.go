package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
)

// Handler is an executor that keeps state between tasks or runs them in its own way. Its methods, and those of
// [Messenger] and [Ender], are called one at a time. They must return soon, because nothing is heard from the agent
// while one runs.
type Handler interface {
	// Launch hands over a task, once. The handler tells what becomes of it by [Task.Report]; its first report is
	// RUNNING or a terminal state.
	Launch(task *Task)
	// Kill asks the handler to end the task within the grace (0 = the default of 5 s), and then to report a terminal
	// state. The agent itself has told of KILLING. Kill may be called again for the same task; a call that leaves less
	// time than what remains shortens the grace.
	Kill(task *Task, grace time.Duration)
}

// Messenger is a Handler that receives messages of its scheduler, each at most once.
type Messenger interface {
	Message(data []byte)
}

// Ender is a Handler that ends all tasks together, for example because another program runs them and has to end too.
type Ender interface {
	// End is called once when the executor has to end, in place of Kill for each task, also when it has no task. The
	// handler reports a terminal state of every task within the grace.
	End(grace time.Duration)
}

// DefaultGrace is how long a task or an executor may take to end, if nothing else is said.
const DefaultGrace = 5 * time.Second

var errKilled = errors.New("the task was killed")

// Functions makes a Handler of one function; see [Run].
func Functions(run func(ctx context.Context, task *Task) error) Handler {
	return &functions{run: run, cancels: make(map[api.TaskID]context.CancelCauseFunc)}
}

type functions struct {
	run func(ctx context.Context, task *Task) error

	mu      sync.Mutex
	cancels map[api.TaskID]context.CancelCauseFunc // of tasks that have not returned
}

func (f *functions) Launch(task *Task) {
	ctx, cancel := context.WithCancelCause(context.Background())
	f.mu.Lock()
	f.cancels[task.ID] = cancel
	f.mu.Unlock()
	_ = task.Report(Report{State: api.TaskRunning})
	go f.serve(ctx, cancel, task)
}

// Kill ends the context of the task's function. A function that ignores its context goes on until the process ends.
func (f *functions) Kill(task *Task, _ time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cancel := f.cancels[task.ID]; cancel != nil {
		cancel(errKilled)
	}
}

func (f *functions) serve(ctx context.Context, cancel context.CancelCauseFunc, task *Task) {
	err := errors.New("the task's function ended its goroutine (runtime.Goexit)")
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("the task's function panicked: %v", cause)
			fmt.Fprintf(os.Stderr, "task %s: %v\n%s", task.ID, err, debug.Stack())
		}
		killed := ctx.Err() != nil
		cancel(nil)
		f.mu.Lock()
		delete(f.cancels, task.ID)
		f.mu.Unlock()
		task.end(outcome(err, killed))
	}()
	err = f.run(ctx, task)
}

func outcome(err error, killed bool) Report {
	switch {
	case killed && (err == nil || errors.Is(err, context.Canceled)):
		return Report{State: api.TaskKilled}
	case killed:
		return Report{State: api.TaskKilled, Message: err.Error()}
	case err != nil:
		return Report{State: api.TaskFailed, Message: err.Error()}
	}
	return Report{State: api.TaskFinished}
}
