package main

import (
	"slices"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// start starts one more instance.
func start(t *testing.T, c *frameworktest.Handle) *frameworktest.Framework {
	t.Helper()
	k, err := newKeeper(3, []string{"sleep", "infinity"})
	if err != nil {
		t.Fatal(err)
	}
	return c.Start(configOf("standby"), k)
}

// TestStandby kills one active instance after the other, and a leader between them: the framework, its
// tasks and what it has stored go on.
func TestStandby(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Masters: 3, Agents: 2}, func(c *frameworktest.Handle) {
		first := start(t, c)
		first.AwaitCount(3, api.TaskRunning)
		second := start(t, c)
		c.Advance(5 * time.Second)
		third := start(t, c)
		c.Advance(time.Minute)
		if second.ID() != "" || third.ID() != "" {
			t.Fatalf("%q and %q are active beside %q", second.ID(), third.ID(), first.ID())
		}
		running := tasks(c)

		first.Kill()
		second.AwaitCount(3, api.TaskRunning)
		c.Leader().Kill()
		second.EndTask("copy-1-1", frameworktest.Play{ExitCode: 1}) // the store knows that it was the first
		second.AwaitState("copy-1-2", api.TaskRunning)
		second.Kill()
		third.AwaitCount(3, api.TaskRunning)
		if first.ID() != second.ID() || second.ID() != third.ID() {
			t.Errorf("the framework was %s, then %s, then %s", first.ID(), second.ID(), third.ID())
		}
		for _, task := range []api.TaskID{"copy-0-1", "copy-1-2", "copy-2-1"} {
			if state := third.States()[task]; state != api.TaskRunning {
				t.Errorf("%s is %s", task, state)
			}
		}
		for _, task := range tasks(c) {
			if task.Task != "copy-1-2" && !slices.Contains(running, task) {
				t.Errorf("%s was started though its copy never ended", task)
			}
		}
	})
}

// TestKilledBeforeTheLaunch: what was planned and never launched is launched by the next instance.
func TestKilledBeforeTheLaunch(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: -1}, func(c *frameworktest.Handle) {
		first := start(t, c)
		client := first.Client()
		if _, err := client.Store().Put(c.T().Context(), key(0), []byte(`{"Task":"copy-0-7","Runs":7}`), 0); err != nil {
			t.Fatal(err)
		}
		first.Kill()
		second := start(t, c)
		second.AwaitState("copy-0-7", api.TaskUnknown)
		c.AddAgent(frameworktest.Machine{})
		second.AwaitState("copy-0-8", api.TaskRunning)
	})
}

// TestDrainAfterATakeover: what both launch anew is wanted no longer, so nothing more is offered.
func TestDrainAfterATakeover(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Masters: 3, Agents: 2}, func(c *frameworktest.Handle) {
		first := start(t, c)
		first.AwaitCount(3, api.TaskRunning)
		second := start(t, c)
		c.Advance(time.Second)
		first.Kill()
		second.AwaitCount(3, api.TaskRunning)
		for _, number := range []int{1, 2, 1, 2, 1, 2} {
			agent := c.Agent(number)
			agent.Drain(0)
			agent.AwaitDrained()
			c.AwaitRunning(3)
			agent.Reactivate()
		}
		offered := second.Offered()
		c.Advance(time.Minute)
		if more := second.Offered() - offered; more > 0 {
			t.Errorf("%d offers came in a minute in which nothing was wanted", more)
		}
		if left, _ := second.Client().Wanted(""); len(left) > 0 {
			t.Errorf("left of the demand are %v", left)
		}
	})
}

func tasks(c *frameworktest.Handle) []api.TaskRef {
	var all []api.TaskRef
	for _, a := range c.Agents() {
		all = append(all, a.Tasks()...)
	}
	return all
}
