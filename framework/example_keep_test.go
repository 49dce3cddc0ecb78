package framework_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// ponderer keeps its first offer and answers three seconds later.
type ponderer struct {
	client *framework.Client
	kept   bool
}

func (p *ponderer) Subscribed(_ context.Context, client *framework.Client) error {
	p.client = client
	return nil
}

func (p *ponderer) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	if p.kept {
		return nil
	}
	p.kept = true
	time.AfterFunc(3*time.Second, func() { // in a goroutine of its own
		err := p.client.Answer(api.Launch(offers[0], api.Task{
			ID: "late-1", Resources: api.Scalars(1, 64), Command: &api.Command{Shell: "exit 0"},
		}))
		if err != nil {
			fmt.Println(err) // Run has ended
		}
	})
	return []api.Answer{api.Keep(offers[0])}
}

func (p *ponderer) Update(_ context.Context, status api.Status) error {
	fmt.Println(status.Task, status.State)
	if status.State.Terminal() {
		return p.client.Teardown()
	}
	return nil
}

// An offer that is kept is answered later, from any goroutine. If it were gone by then, the task would end DROPPED,
// which Update would be told, and nothing else would happen.
func ExampleClient_Answer() {
	frameworktest.Example(frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		fmt.Println(c.Start(framework.Config{Name: "ponderer"}, &ponderer{}).Await())
	})
	// Output:
	// late-1 RUNNING
	// late-1 FINISHED
	// <nil>
}
