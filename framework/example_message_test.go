package framework_test

import (
	"context"
	"fmt"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// asker runs a task on its own executor, and receives the executor's messages.
type asker struct {
	client  *framework.Client
	started bool
}

func (a *asker) Subscribed(_ context.Context, client *framework.Client) error {
	a.client = client
	return nil
}

func (a *asker) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	if a.started {
		return nil
	}
	a.started = true
	return []api.Answer{api.Launch(offers[0], api.Task{
		ID: "answer-1", Resources: api.Scalars(1, 64), Data: []byte("six by nine"),
		Executor: &api.Executor{ID: "thinker", Command: api.Command{Argv: []string{"thinker"}}},
	})}
}

func (a *asker) Update(_ context.Context, status api.Status) error {
	if !status.State.Terminal() {
		return nil
	}
	fmt.Printf("%s: %s\n", status.State, status.Data) // what must arrive is sent with a status
	// Data for the executor is delivered at most once, and only if the executor is a Messenger of package executor.
	if err := a.client.Message(status.Agent, "thinker", []byte("thanks")); err != nil {
		return err
	}
	return a.client.Teardown()
}

// Message makes asker a Messenger.
func (a *asker) Message(_ context.Context, _ api.AgentID, from api.ExecutorID, data []byte) {
	fmt.Printf("%s says: %s\n", from, data)
}

// think is the executor's code: a function for executor.Run.
func think(_ context.Context, task *executor.Task) error {
	if err := task.Message([]byte("thinking about " + string(task.Data))); err != nil {
		return err
	}
	task.SetResult([]byte("42"))
	return nil
}

// Scheduler and executor exchange data: by messages, which arrive at most once, and with statuses, which come again
// until they are acknowledged.
func ExampleClient_Message() {
	cluster := frameworktest.Cluster{Executors: map[api.ExecutorID]frameworktest.ExecutorFunc{"thinker": think}}
	frameworktest.Example(cluster, func(c *frameworktest.Handle) {
		fmt.Println(c.Start(framework.Config{Name: "asker"}, &asker{}).Await())
	})
	// Output:
	// thinker says: thinking about six by nine
	// FINISHED: 42
	// <nil>
}
