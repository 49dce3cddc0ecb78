package taskset_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/taskset"
)

// checked is a server that is killed when it hangs, and that tells when it is ready.
func checked() api.Task {
	return api.Task{
		Command:   &api.Command{Shell: "./serve --port $TENDER_TASK_PORT_HTTP"},
		Resources: api.Scalars(1, 64),
		Ports:     map[string]uint16{"http": 0}, // package taskset takes one of the offer's
		Checks: []api.Check{
			{HTTP: &api.HTTPCheck{Port: "http", Path: "/alive"}, Interval: 5 * time.Second},
			{HTTP: &api.HTTPCheck{Port: "http", Path: "/ready"}, Interval: time.Second, Readiness: true},
		},
	}
}

// A server is up when it runs and passes its checks. Its executor makes the checks while it runs.
func Example_checks() {
	resources, err := api.ParseResources("cpus:4;mem:4096;ports:[31000-31009]")
	if err != nil {
		fmt.Println(err)
	}
	cluster := frameworktest.Cluster{
		Machine: frameworktest.Machine{Resources: resources},
		Script: func(api.Task) frameworktest.Play {
			return frameworktest.Play{Forever: true, ReadyAfter: 2500 * time.Millisecond}
		},
	}
	frameworktest.Example(cluster, func(c *frameworktest.Handle) {
		set := taskset.New(taskset.Config{Updated: func(item string, status api.Status) {
			if status.Healthy != nil {
				fmt.Println(item, status.State, *status.Healthy, status.Message)
			}
		}})
		f := c.Start(framework.Config{Name: "servers"}, set)
		if err := set.Add(context.Background(), taskset.Item{ID: "server", Service: true, Task: checked()}); err != nil {
			fmt.Println(err)
		}
		f.AwaitCount(1, api.TaskRunning)
		c.Advance(5 * time.Second)
	})
	// Output:
	// server RUNNING false it has yet to pass its check (GET /ready at port http)
	// server RUNNING false it does not pass its check (GET /ready at port http): it is not ready yet
	// server RUNNING true
}
