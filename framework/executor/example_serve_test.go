package executor_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/executor"
)

// tables is an executor that keeps what it has loaded from task to task, runs many tasks
// at once and listens to its scheduler.
type tables struct {
	mu     sync.Mutex // methods come one at a time, the tasks' goroutines do not
	loaded map[string][]byte
	stop   map[api.TaskID]context.CancelFunc
}

func (t *tables) Launch(task *executor.Task) {
	ctx, stop := context.WithCancel(context.Background())
	t.mu.Lock()
	t.stop[task.ID] = stop
	t.mu.Unlock()
	go t.work(ctx, task) // return soon: nothing is heard from the agent meanwhile
}

func (t *tables) work(ctx context.Context, task *executor.Task) {
	_ = task.Report(executor.Report{State: api.TaskRunning}) // an error: it has ended by now
	name := string(task.Data)
	t.mu.Lock()
	if t.loaded[name] == nil {
		t.loaded[name] = []byte("table")
	}
	t.mu.Unlock()
	_ = task.Message([]byte("loaded " + name)) // at most once, so for what may be lost
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

// Message makes it a Messenger: here the scheduler names a table to forget.
func (t *tables) Message(data []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.loaded, string(data))
}

// The full interface is for executors that keep state between tasks. The agent may be
// restarted meanwhile: tasks go on, and their reports are told when it is back. Where no
// agent has started the process, it says so.
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
