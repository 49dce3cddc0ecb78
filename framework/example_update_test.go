package framework_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// The framework moves to another role and to other agents without a new subscription.
func ExampleClient_UpdateFramework() {
	frameworktest.Example(frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "mover"}, idle{})
		f.AwaitOffers(1)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		client := f.Client() // the client that Subscribed is given
		err := client.UpdateFramework(ctx, func(f *api.Framework) {
			f.Roles = []api.Role{"batch/night"}
			f.Constraint = `region == "eu"`
		})
		fmt.Println(err)
		err = client.UpdateFramework(ctx, func(f *api.Framework) { f.Constraint = `regoin == "eu"` })
		fmt.Println("invalid:", api.Is(err, api.Invalid)) // and nothing has changed
	})
	// Output:
	// <nil>
	// invalid: true
}
