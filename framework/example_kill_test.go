package framework_test

import (
	"context"
	"fmt"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// stopper starts a server and stops it as soon as it runs.
type stopper struct {
	client  *framework.Client
	started bool
}

func (s *stopper) Subscribed(_ context.Context, client *framework.Client) error {
	s.client = client
	return nil
}

func (s *stopper) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	if s.started {
		return nil
	}
	s.started = true
	return []api.Answer{api.Launch(offers[0], api.Task{
		ID: "server-1", Resources: api.Scalars(1, 64), Command: &api.Command{Shell: "sleep infinity"},
	})}
}

func (s *stopper) Update(_ context.Context, status api.Status) error {
	fmt.Println(status.Task, status.State)
	switch {
	case status.State == api.TaskRunning:
		return s.client.Kill(status.Task)
	case status.State.Terminal():
		return s.client.Teardown()
	}
	return nil
}

// A kill is asked for once; the SDK repeats it, over failovers, until the task has ended.
func ExampleClient_Kill() {
	frameworktest.Example(frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		fmt.Println(c.Start(framework.Config{Name: "stopper"}, &stopper{}).Await())
	})
	// Output:
	// server-1 RUNNING
	// server-1 KILLING
	// server-1 KILLED
	// <nil>
}
