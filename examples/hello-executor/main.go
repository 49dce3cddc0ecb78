// Command hello-executor is hello with an executor of its own: agents start this same
// binary again to run its tasks, which give back results. It ends with the last one.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/framework/pack"
)

// greet runs one task on an agent. nil makes the task FINISHED, an error FAILED. Many tasks run at the same time in one
// process, so whatever is slow to load is loaded once.
func greet(_ context.Context, task *executor.Task) error {
	if len(task.Data) == 0 {
		return errors.New("nobody to greet")
	}
	task.SetResult(fmt.Appendf(nil, "hello, %s, from process %d", task.Data, os.Getpid()))
	return nil
}

// hello is the scheduler.
type hello struct {
	waiting []api.Task
	open    map[api.TaskID]api.Task // tasks that have not ended
	end     context.CancelFunc
}

func newHello(self *api.Executor, end context.CancelFunc, names ...string) *hello {
	h := &hello{open: make(map[api.TaskID]api.Task), end: end}
	for _, name := range names {
		h.add(api.Task{ID: api.TaskID(name), Resources: api.Scalars(0.1, 32), Executor: self, Data: []byte(name)})
	}
	return h
}

func (h *hello) add(task api.Task) {
	h.waiting, h.open[task.ID] = append(h.waiting, task), task
}

// Offers packs the waiting tasks into the offers, with an executor on agents where none runs yet.
func (h *hello) Offers(_ context.Context, offers []api.Offer) (answers []api.Answer) {
	answers, h.waiting = pack.Pack(offers, h.waiting, pack.Options{})
	return answers
}

// Update is told each step of each task, again and again until it returns nil.
func (h *hello) Update(_ context.Context, status api.Status) error {
	task, open := h.open[status.Task]
	if !open || !status.State.Terminal() {
		return nil // the scheduler knows it already, or the task goes on
	}
	delete(h.open, status.Task)
	fmt.Printf("%s is %s on %s: %s%s\n", status.Task, status.State, status.Agent, status.Data, status.Message)
	if status.State == api.TaskDropped { // never started: try again, under another ID
		task.ID += "-again"
		h.add(task)
	}
	if len(h.open) == 0 {
		h.end()
	}
	return nil
}

// schedule runs the scheduler, if no agent has started this program.
func schedule(ctx context.Context) error {
	self, err := executor.Self("greeter") // this binary; agents find it at the same path
	if err != nil {
		return err
	}
	self.Resources = api.Scalars(0.1, 32) // for the executor itself, once on each agent
	ctx, end := context.WithCancel(ctx)
	defer end()
	masters := strings.Split(cmp.Or(os.Getenv("TENDER_MASTER"), framework.DefaultMaster), ",")
	config := framework.Config{Name: "hello-executor", Masters: masters, ConnectTimeout: 10 * time.Second, TeardownAtEnd: true}
	return framework.Run(ctx, config, newHello(self, end, "Ada", "Grace", "Edsger"))
}

func main() {
	if err := executor.Main(context.Background(), greet, schedule); err != nil {
		log.Fatal(err)
	}
}
