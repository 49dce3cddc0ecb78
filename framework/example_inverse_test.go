package framework_test

import (
	"context"
	"fmt"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// obliging gives back at once what it is asked for. It starts a server, like the stopper in the example of Client.Kill.
type obliging struct{ stopper }

func (o *obliging) InverseOffers(_ context.Context, offers []api.InverseOffer) {
	for _, offer := range offers {
		fmt.Println("asked back:", offer.Tasks, offer.Reason)
		if err := o.client.AnswerInverse(true, offer.ID); err != nil {
			fmt.Println(err)
		}
	}
}

func (o *obliging) Update(_ context.Context, status api.Status) error {
	fmt.Println(status.Task, status.State)
	return nil
}

// Resources to which others have a better claim are asked back by an inverse offer, with a deadline. The scheduler may
// choose which tasks to kill, or let the masters do it now. At the deadline the masters take what it has not given
// back.
func ExampleInverseOfferee() {
	frameworktest.Example(frameworktest.Cluster{Allocator: "priority"}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "obliging"}, &obliging{})
		f.AwaitState("server-1", api.TaskRunning)
		c.Preempt(api.Scalars(4, 512)) // another framework, of higher priority, gets the resources
		f.AwaitState("server-1", api.TaskKilled)
	})
	// Output:
	// server-1 RUNNING
	// asked back: [server-1] PREEMPTED
	// server-1 KILLING
	// server-1 KILLED
}
