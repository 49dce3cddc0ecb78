package framework_test

import (
	"expvar"
	"fmt"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// Metrics work with any library; here with the standard one, which shows them at /debug/vars.
func ExampleMetrics() {
	offers, active := expvar.NewInt("offers"), expvar.NewInt("session_active")
	statuses, waiting := expvar.NewMap("statuses"), expvar.NewInt("callbacks_waiting")
	config := framework.Config{
		Name: "counted",
		Metrics: framework.Metrics{
			Offers:  func(n int) { offers.Add(int64(n)) },
			Session: func(on bool) { active.Set(map[bool]int64{true: 1}[on]) },
			Status:  func(state api.TaskState, _ api.Reason) { statuses.Add(state.String(), 1) },
			Queues:  func(q framework.Queues) { waiting.Set(int64(q.Callbacks)) },
		},
	}
	frameworktest.Example(frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		f := c.Start(config, &stopper{}) // from the example of Client.Kill
		fmt.Println(f.Await())
	})
	// The end is counted when Update has returned, and the framework may be removed before that.
	fmt.Println(statuses.Get("RUNNING"), statuses.Get("KILLING"), active)
	// Output:
	// server-1 RUNNING
	// server-1 KILLING
	// server-1 KILLED
	// <nil>
	// 1 1 0
}
