package frameworktest_test

import (
	"strings"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/taskset"
)

// TestKeptOfferIsAskedBack: a framework keeps an offer of the only agent, and another one states a demand. The offer is
// taken back, its framework is told so, and the other's task runs long before the offer would have expired. What is
// left is offered again.
func TestKeptOfferIsAskedBack(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		keeper := newKeeper()
		c.Start(framework.Config{Name: "keeper"}, keeper)
		c.Await("an offer", func() bool { return len(keeper.holds()) == 1 })
		set := taskset.New(taskset.Config{})
		err := set.Add(t.Context(), taskset.Item{ID: "a", Task: api.Task{
			Resources: api.Scalars(1, 128), Command: &api.Command{Shell: "sleep 3600"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		began := c.Now()
		c.Start(framework.Config{Name: "other"}, set).AwaitCount(1, api.TaskRunning)
		if waited := c.Now() - began; waited > api.DefaultRefuse {
			t.Errorf("the other one waited %v", waited)
		}
		c.Await("the keeper to hear of it", func() bool { return len(keeper.why()) == 1 })
		if why := keeper.why()[0]; !strings.Contains(why, "it was asked back for") {
			t.Errorf("the keeper is told %q", why)
		}
		c.Await("an offer of the rest", func() bool { return len(keeper.holds()) == 1 })
	})
}
