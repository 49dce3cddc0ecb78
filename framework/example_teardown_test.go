package framework_test

import (
	"fmt"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// Teardown removes the framework with its tasks, and Run returns nil. The framework's ID is never used again. A
// framework that ends without Teardown leaves its tasks running for the failover timeout.
func ExampleClient_Teardown() {
	frameworktest.Example(frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "short"}, idle{})
		f.AwaitOffers(1)
		fmt.Println(f.Client().Teardown()) // sent
		fmt.Println(f.Await())             // what Run returned
		again := c.Start(framework.Config{Name: "short", ID: f.ID()}, idle{})
		fmt.Println("its ID again is refused as removed:", api.Is(again.Await(), api.Removed))
	})
	// Output:
	// <nil>
	// <nil>
	// its ID again is refused as removed: true
}
