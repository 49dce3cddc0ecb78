package executor_test

import (
	"context"
	"fmt"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/executor"
)

// Self describes this program, for agents that find it under the same path.
func ExampleSelf() {
	self, err := executor.Self("counter", "-v")
	if err != nil {
		fmt.Println(err)
		return
	}
	self.Resources = api.Scalars(0.1, 64) // its own, beside those of its tasks
	fmt.Println(self.ID, self.Command.Argv[1:], self.Resources)
	// Output: counter [-v] cpus:0.1;mem:64
}

// One binary is both: started by an agent it runs tasks, otherwise it schedules.
func ExampleMain() {
	work := func(context.Context, *executor.Task) error { return nil }
	schedule := func(context.Context) error { // framework.Run(…)
		fmt.Println("scheduling; started by an agent:", executor.Active())
		return nil
	}
	if err := executor.Main(context.Background(), work, schedule); err != nil {
		fmt.Println(err)
	}
	// Output: scheduling; started by an agent: false
}
