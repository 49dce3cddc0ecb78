package framework_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// A program that has waited for some seconds asks the leader why, and tells people.
func ExampleClient_Explain() {
	machine := frameworktest.Machine{Resources: api.Scalars(4, 256)}
	frameworktest.Example(frameworktest.Cluster{Agents: 2, Machine: machine}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "builder"}, &builder{queue: []api.Task{{ID: "build", Resources: api.Scalars(8, 64)}}})
		c.Advance(5 * time.Second)
		why, err := f.Client().Explain(context.Background())
		if err != nil {
			fmt.Println(err)
		}
		for _, sentence := range why {
			fmt.Println(sentence)
		}
	})
	// Output:
	// no agent that is up meets the constraint attributes["disk"] == "ssd"
	// framework-1 wants cpus:8;mem:64, more than any agent has; the most that one has of each is cpus:4, mem:256
}
