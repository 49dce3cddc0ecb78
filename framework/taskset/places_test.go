package taskset_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/taskset"
)

// TestSpreadOfMany: the masters offer where the fewest tasks are, so each rack gets about the same number, although no
// rack has room for all. When one agent of a rack is full, further tasks go to the other agents of the rack.
func TestSpreadOfMany(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: -1}, func(c *frameworktest.Handle) {
		for i := range 12 {
			c.AddAgent(frameworktest.Machine{Resources: api.Scalars(4, 4096), Attributes: map[string]string{"rack": fmt.Sprint(i / 3)}})
		}
		c.AwaitAgents(12)
		set := taskset.New(taskset.Config{Spread: api.ByAttribute("rack"), Apart: api.ByAgent, Most: 2})
		if err := set.Scale(context.Background(), "web", command("", "sleep infinity"), 22); err != nil {
			t.Fatal(err)
		}
		f := c.Start(framework.Config{Name: "web"}, set)
		c.AwaitRunning(22)
		racks := make(map[int]int)
		for i := range 12 {
			n := len(c.Agent(i + 1).Tasks())
			if racks[i/3] += n; n > 2 {
				t.Errorf("%d tasks run on agent %d", n, i+1)
			}
		}
		for rack, n := range racks {
			if n < 5 || n > 6 {
				t.Errorf("%d of 22 tasks run in rack %d of four", n, rack)
			}
		}
		if f.Offered() > 24 {
			t.Errorf("%d offers came for 22 tasks on 12 agents", f.Offered())
		}
		if err := set.Scale(context.Background(), "web", command("", "sleep infinity"), 30); err != nil {
			t.Fatal(err)
		}
		c.AwaitRunning(24)
		c.Never(time.Minute, "three tasks on an agent", func() bool { return f.Count(api.TaskRunning) > 24 })
		list, err := c.Operator().ListFrameworks(c.T().Context(), &apiv1.ListRequest{})
		if err != nil {
			t.Fatal(err)
		}
		shown := list.GetItems()[0].GetDemand()
		if len(shown) != 1 || shown[0].GetCount() != 6 || shown[0].GetGroup() != "web" {
			t.Fatalf("the demand is shown as %v", shown)
		}
		if spread := shown[0].GetSpread(); len(spread) != 2 || spread[0].GetBy() != "attribute:rack" || spread[1].GetMost() != 2 {
			t.Errorf("its places are shown as %v", spread)
		}
	})
}

// TestAddRefusesWhatCanNeverRun: Add refuses such a task at once, with the reason, instead of an attempt that ends
// ERROR.
func TestAddRefusesWhatCanNeverRun(t *testing.T) {
	for want, spoil := range map[string]func(task *api.Task){
		"asks for no resources":                func(task *api.Task) { task.Resources = api.Resources{} },
		"neither command nor executor":         func(task *api.Task) { task.Command = nil },
		"not among the task's resources":       func(task *api.Task) { task.Ports = map[string]uint16{"http": 31000} },
		"cpus both firm and revocable":         func(task *api.Task) { task.Resources = task.Resources.Plus(task.Resources.AsRevocable()) },
		"with its command, environment and da": func(task *api.Task) { task.Data = make([]byte, api.TaskBytesMax+1) },
	} {
		set := taskset.New(taskset.Config{})
		good, bad := command("good", "true"), command("bad", "true")
		good.Task.Ports = map[string]uint16{"http": 0} // the offer's
		spoil(&bad.Task)
		err := set.Add(context.Background(), bad, good)
		if !api.Is(err, api.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
		if n := set.Numbers(); n.Items != 1 {
			t.Errorf("beside a bad item %d are in the set", n.Items)
		}
	}
}
