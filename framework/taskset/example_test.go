package taskset_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/pack"
	"github.com/tenderhq/tender/framework/taskset"
)

// A service of three, at most one on an agent, each with a port of its own.
func Example_service() {
	web := taskset.New(taskset.Config{Apart: pack.ByAgent, Unreachable: time.Minute})
	err := web.Scale("web", taskset.Item{Task: api.Task{
		Resources: api.Scalars(0.5, 128),
		Command:   &api.Command{Shell: "exec python3 -m http.server $TENDER_TASK_PORT_HTTP"},
		Ports:     map[string]uint16{"http": 0},
	}}, 3)
	fmt.Println(err, web.Numbers().Waiting)
	// With a cluster:
	_ = func(ctx context.Context) error {
		return framework.Run(ctx, framework.Config{Name: "web"}, web)
	}
	// Output: <nil> 3
}
