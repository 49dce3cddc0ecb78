package frameworktest_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// TestGoneWhileAway: an agent was marked gone while it was away. As soon as it is back it kills what it ran, and its
// machine takes part again as a new agent (R16).
func TestGoneWhileAway(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted=%v", restarted), func(t *testing.T) { goneWhileAway(t, restarted) })
	}
}

func goneWhileAway(t *testing.T, restarted bool) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 2}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "batch"}, newBatch(16, "sleep 1h"))
		f.AwaitCount(16, api.TaskRunning)
		away := c.Agent(2)
		old, left := away.ID(), away.Tasks()
		away.Isolate()
		away.AwaitState(api.AgentTombstone)
		away.MarkGone()
		f.AwaitCount(len(left), api.TaskGoneByOperator)
		if restarted {
			away.Kill()
			away.Start()
		}
		away.Rejoin()
		c.AwaitFor(time.Minute, "the machine to be a new agent", func() bool { return away.ID() != old })
		f.AwaitCount(16, api.TaskRunning) // the batch has launched them again, some of them here
		for _, task := range away.Tasks() {
			if slices.Contains(left, task) {
				t.Errorf("%s was given up and still runs", task)
			}
		}
	})
}

// TestGoneWhileAlive: an operator may give up an agent that is alive. Its tasks are gone for their schedulers, the agent
// kills them, and its machine takes part again as a new agent.
func TestGoneWhileAlive(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 2}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "batch"}, newBatch(16, "sleep 1h"))
		f.AwaitCount(16, api.TaskRunning)
		alive := c.Agent(1)
		old, had := alive.ID(), alive.Tasks()
		alive.MarkGone()
		f.AwaitCount(len(had), api.TaskGoneByOperator)
		c.AwaitFor(time.Minute, "the machine to be a new agent", func() bool { return alive.ID() != old })
		f.AwaitCount(16, api.TaskRunning)
	})
}
