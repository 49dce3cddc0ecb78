package framework_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// builder runs the tasks in its queue, and states how many there are.
type builder struct {
	queue  []api.Task // all of one size
	client *framework.Client
}

func (b *builder) Subscribed(_ context.Context, client *framework.Client) error {
	b.client = client
	return b.state()
}

// state replaces the demand that was stated before. A demand without shapes says that nothing is wanted.
func (b *builder) state() error {
	if len(b.queue) == 0 {
		return b.client.Demand(api.Demand{})
	}
	return b.client.Demand(api.Demand{Shapes: []api.Shape{{
		Resources:  b.queue[0].Resources,
		Count:      int64(len(b.queue)),
		Constraint: `attributes["disk"] == "ssd"`,
	}}})
}

func (b *builder) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	var answers []api.Answer
	for _, offer := range offers {
		fmt.Println("offered", offer.Resources, "on", offer.Hostname)
		if len(b.queue) > 0 {
			answers = append(answers, api.Launch(offer, b.queue[0]))
			b.queue = b.queue[1:]
		}
	}
	if err := b.state(); err != nil { // the masters are told it after the answers
		fmt.Println(err)
	}
	return answers
}

func (b *builder) Update(context.Context, api.Status) error { return nil }

// A framework that states its demand is offered what fits it, and nothing if it wants nothing. Only for stated demand
// are the tasks of others preempted. The framework starts suppressed, so that nothing is offered before the masters
// know what it wants.
func ExampleClient_Demand() {
	frameworktest.Example(frameworktest.Cluster{}, func(c *frameworktest.Handle) { // its agent has no attributes
		c.AddAgent(frameworktest.Machine{Hostname: "fast", Attributes: map[string]string{"disk": "ssd"}})
		c.AwaitAgents(2)
		f := c.Start(framework.Config{Name: "builder", Suppressed: true}, &builder{queue: []api.Task{
			{ID: "build-1", Resources: api.Scalars(2, 512), Command: &api.Command{Shell: "sleep 60"}},
		}})
		f.AwaitState("build-1", api.TaskFinished)
		c.Advance(time.Minute)
		fmt.Println("offers in that minute:", f.Offered())
	})
	// Output:
	// offered cpus:2;mem:512 on fast
	// offers in that minute: 1
}
