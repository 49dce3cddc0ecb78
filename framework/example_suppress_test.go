package framework_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// idle declines all offers.
type idle struct{}

func (idle) Offers(context.Context, []api.Offer) []api.Answer { return nil }
func (idle) Update(context.Context, api.Status) error         { return nil }

// Without a stated demand, offers come again and again. Suppress stops them in the given roles, or in all if none is
// given. Revive resumes them, and also brings back what was declined.
func ExampleClient_Suppress() {
	frameworktest.Example(frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "idle"}, idle{})
		f.AwaitOffers(1)
		client := f.Client() // the client that Subscribed is given
		fmt.Println(client.Suppress())
		c.Advance(10 * time.Second)
		before := f.Offered()
		c.Advance(time.Minute)
		fmt.Println("offers while suppressed:", f.Offered()-before)
		fmt.Println(client.Revive())
		f.AwaitOffers(before + 1)
		fmt.Println("revived")
	})
	// Output:
	// <nil>
	// offers while suppressed: 0
	// <nil>
	// revived
}
