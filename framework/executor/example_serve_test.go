package executor_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/executor"
)

// tables is an executor that keeps what it has loaded from one task to the next, runs many tasks at the same time and
// receives messages of its scheduler.
type tables struct {
	mu     sync.Mutex // Handler's methods are called one at a time, but the tasks run in goroutines
	loaded map[string][]byte
	stop   map[api.TaskID]context.CancelFunc
}

func (t *tables) Launch(task *executor.Task) {
	ctx, stop := context.WithCancel(context.Background())
	t.mu.Lock()
	t.stop[task.ID] = stop
	t.mu.Unlock()
	go t.work(ctx, task) // return soon, as nothing is heard from the agent meanwhile
}

func (t *tables) work(ctx context.Context, task *executor.Task) {
	_ = task.Report(executor.Report{State: api.TaskRunning}) // an error says that the task has ended by now
	name := string(task.Data)
	t.mu.Lock()
	if t.loaded[name] == nil {
		t.loaded[name] = []byte("table")
	}
	t.mu.Unlock()
	_ = task.Message([]byte("loaded " + name)) // arrives at most once, so it is for what may be lost
	end := executor.Report{State: api.TaskFinished}
	if ctx.Err() != nil {
		end.State = api.TaskKilled
	}
	t.mu.Lock()
	delete(t.stop, task.ID)
	t.mu.Unlock()
	_ = task.Report(end)
}

func (t *tables) Kill(task *executor.Task, _ time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if stop := t.stop[task.ID]; stop != nil {
		stop()
	}
}

// Message makes tables a Messenger: here the scheduler names a table that is to be dropped.
func (t *tables) Message(data []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.loaded, string(data))
}

// The full interface is for executors that keep state between tasks. The agent may be restarted meanwhile: the tasks go
// on, and their reports are told when the agent is back. If no agent has started the process, Environment returns an
// error.
func ExampleServe() {
	config, err := executor.Environment()
	if err == nil {
		err = executor.Serve(context.Background(), config, &tables{
			loaded: make(map[string][]byte), stop: make(map[api.TaskID]context.CancelFunc),
		})
	}
	fmt.Println(err)
	// Output:
	// executor.run: TENDER_EXECUTOR_SOCKET: invalid: the variable is not set; executors are started by an agent, not by hand
}
