package framework_test

import (
	"context"
	"fmt"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// forgetful is a scheduler that was restarted. It has read the IDs of its tasks from a file, and wants to know what has
// become of them.
type forgetful struct{ mine []api.TaskID }

func (f *forgetful) Subscribed(_ context.Context, client *framework.Client) error {
	return client.Reconcile(f.mine...)
}

func (f *forgetful) Offers(context.Context, []api.Offer) []api.Answer { return nil }

func (f *forgetful) Update(_ context.Context, status api.Status) error {
	fmt.Println(status.Task, status.State)
	return nil
}

// Tasks that run are told in every new session without being asked for. Reconcile asks about tasks that only the
// scheduler may know, such as one that it wrote down before it sent the answer that launches it.
func ExampleClient_Reconcile() {
	frameworktest.Example(frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "forgetful"}, &forgetful{mine: []api.TaskID{"never-launched"}})
		f.AwaitState("never-launched", api.TaskUnknown)
	})
	// Output:
	// never-launched UNKNOWN
}
