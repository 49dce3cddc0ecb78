package executor_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/executor"
)

// An executor is one function: nil is FINISHED, an error FAILED, and KILLED when its
// context has ended.
func ExampleRun() { //nolint:testableexamples // an agent starts executors; TestLives plays one
	err := executor.Run(context.Background(), func(ctx context.Context, task *executor.Task) error {
		for step := range 10 {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return ctx.Err() // killed: clean up and go
			}
			task.Progress([]byte{byte(step)}, fmt.Sprintf("step %d of 10", step+1))
		}
		task.SetResult([]byte("42")) // in the data of the status FINISHED
		return nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// One binary is both: started by an agent it runs tasks, started by you it schedules.
func ExampleMain() { //nolint:testableexamples // an agent starts executors; TestSelfIsShipped in internal/cli runs one
	work := func(context.Context, *executor.Task) error { return nil }
	schedule := func(context.Context) error { return nil } // framework.Run(…)
	if err := executor.Main(context.Background(), work, schedule); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// Self describes this program, where agents find it under the same path.
func ExampleSelf() {
	self, err := executor.Self("counter", "-v")
	if err != nil {
		fmt.Println(err)
		return
	}
	self.Resources = api.Scalars(0.1, 64) // its own, beside those of its tasks
	fmt.Println(self.ID, self.Command.Argv[1:], self.Resources)
	// Output: counter [-v] cpus:0.1;mem:64
}

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
// restarted meanwhile: tasks go on, and their reports are told when it is back.
func ExampleServe() { //nolint:testableexamples // an agent starts executors; TestHandlerKeepsState plays one
	config, err := executor.Environment()
	if err == nil {
		err = executor.Serve(context.Background(), config, &tables{
			loaded: make(map[string][]byte), stop: make(map[api.TaskID]context.CancelFunc),
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
