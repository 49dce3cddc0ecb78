package executor_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// count is an executor's function: if it returns nil the task is FINISHED, if it returns an error FAILED, and KILLED if
// its context has ended. Its main calls
//
//	err := executor.Run(ctx, count)
func count(ctx context.Context, task *executor.Task) error {
	for step := range 2 {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err() // killed: clean up and return
		}
		task.Progress(nil, fmt.Sprintf("step %d of 2", step+1)) // RUNNING again
	}
	task.SetResult([]byte("42")) // in the data of the status FINISHED
	return nil
}

// counter is the scheduler: it runs one such task.
type counter struct {
	client  *framework.Client
	started bool
}

func (c *counter) Subscribed(_ context.Context, client *framework.Client) error {
	c.client = client
	return nil
}

func (c *counter) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	if c.started {
		return nil
	}
	c.started = true
	return []api.Answer{api.Launch(offers[0], api.Task{
		ID: "count-1", Resources: api.Scalars(0.5, 64),
		Executor: &api.Executor{ID: "counter", Command: api.Command{Argv: []string{"/opt/counter"}}}, // or executor.Self
	})}
}

func (c *counter) Update(_ context.Context, status api.Status) error {
	fmt.Printf("%s %q %q\n", status.State, status.Message, status.Data)
	if status.State.Terminal() {
		return c.client.Teardown()
	}
	return nil
}

// An executor is one function that runs once for each task, many at the same time. Here a cluster in memory runs it, in
// place of a program that calls [executor.Run] with it.
func ExampleRun() {
	cluster := frameworktest.Cluster{Executors: map[api.ExecutorID]frameworktest.ExecutorFunc{"counter": count}}
	frameworktest.Example(cluster, func(c *frameworktest.Handle) {
		fmt.Println(c.Start(framework.Config{Name: "counter"}, &counter{}).Await())
	})
	// Output:
	// RUNNING "" ""
	// RUNNING "step 1 of 2" ""
	// RUNNING "step 2 of 2" ""
	// FINISHED "" "42"
	// <nil>
}
