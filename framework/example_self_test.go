package framework_test

import (
	"fmt"
	"strings"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// One binary is both scheduler and executor. It reaches the agents without a shared file system: they fetch it from the
// scheduler, at the address that the scheduler tells them, and check it.
func ExampleClient_Self() {
	frameworktest.Example(frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "counter", ShipAddress: "scheduler.example.com:7000"}, idle{})
		f.AwaitOffers(1)
		self, err := f.Client().Self("counter", "-v")
		if err != nil {
			fmt.Println(err)
			return
		}
		task := api.Task{ID: "count-1", Resources: api.Scalars(1, 128), Executor: self}
		program := task.Executor.Command.URIs[0]
		fmt.Println(task.Executor.Command.Argv)
		fmt.Println(strings.TrimSuffix(program.Source, program.SHA256))
	})
	// Output:
	// [./executor -v]
	// http://counter:7000/
}
