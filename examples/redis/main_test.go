package main

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// start starts one more instance.
func start(c *frameworktest.Handle) *frameworktest.Framework {
	return c.Start(configOf(), newKeeper("sleep infinity", func(api.Status) {}))
}

// disks are machines with room for the volume.
func disks(agents, masters int) frameworktest.Cluster {
	resources := api.MustParseResources("cpus:2;mem:1024;disk:1000;ports:[31000-31009]")
	return frameworktest.Cluster{Masters: masters, Agents: agents, Machine: frameworktest.Machine{Resources: resources}}
}

// home returns the agent on which a task of the story runs.
func home(c *frameworktest.Handle) *frameworktest.Agent {
	c.AwaitRunning(1)
	agents := c.Agents()
	return agents[slices.IndexFunc(agents, func(a *frameworktest.Agent) bool { return len(a.Tasks()) > 0 })]
}

// TestRedisStaysWithItsData: the server comes back where its volume is, after its own end, a drain, a reboot and a
// silence of its agent, whoever is leader and whichever instance works.
func TestRedisStaysWithItsData(t *testing.T) {
	frameworktest.Run(t, disks(3, 3), func(c *frameworktest.Handle) {
		first := start(c)
		first.AwaitState("redis-1", api.TaskRunning)
		second := start(c)
		where := home(c)
		back := func(f *frameworktest.Framework, task api.TaskID) {
			t.Helper()
			f.AwaitState(task, api.TaskRunning)
			if now := home(c); now != where {
				t.Errorf("%s runs on %s, and its data is on %s", task, now.ID(), where.ID())
			}
		}
		first.EndTask("redis-1", frameworktest.Play{ExitCode: 1})
		back(first, "redis-2")

		where.Drain(0)
		where.AwaitDrained()
		c.Advance(2 * time.Minute)
		for _, agent := range c.Agents() {
			if n := len(agent.Tasks()); n != 0 {
				t.Errorf("%d servers run on %s while the home is drained", n, agent.ID())
			}
		}
		where.Reactivate()
		back(first, "redis-3")

		first.Kill()
		c.Leader().Kill()
		where.Reboot()
		where.Start()
		back(second, "redis-4")

		where.Isolate()
		where.AwaitState(api.AgentTombstone)
		c.Advance(2 * time.Minute)
		where.Rejoin()
		back(second, "redis-4")
	})
}

// unlucky is a keeper whose first answer never reaches a master.
type unlucky struct {
	*keeper
	strike func()
}

func (u *unlucky) Offers(ctx context.Context, offers []api.Offer) []api.Answer {
	answers := u.keeper.Offers(ctx, offers)
	if len(answers) > 0 && u.strike != nil {
		u.strike()
		u.strike = nil
	}
	return answers
}

// TestRedisIsMadeInTheEnd: when the answer that makes the volume is lost, it is made by another one at the same home.
func TestRedisIsMadeInTheEnd(t *testing.T) {
	frameworktest.Run(t, disks(2, 3), func(c *frameworktest.Handle) {
		k := newKeeper("sleep infinity", func(api.Status) {})
		f := c.Start(configOf(), &unlucky{keeper: k, strike: func() { c.Leader().Kill() }})
		f.AwaitState("redis-1", api.TaskDropped)
		f.AwaitState("redis-2", api.TaskRunning)
		if now := home(c); now.ID() != k.Volume.Home {
			t.Errorf("it runs on %s, and its home is %s", now.ID(), k.Volume.Home)
		}
	})
}

// TestRedisHasANewHome when the old one was given up for ever, and only then.
func TestRedisHasANewHome(t *testing.T) {
	frameworktest.Run(t, disks(2, 1), func(c *frameworktest.Handle) {
		f := start(c)
		f.AwaitState("redis-1", api.TaskRunning)
		old := home(c)
		old.Isolate()
		old.AwaitState(api.AgentTombstone)
		c.Advance(2 * time.Minute)
		if state := f.States()["redis-1"]; state != api.TaskUnreachable {
			t.Errorf("the server is %s, and its agent is away", state)
		}
		old.MarkGone()
		f.AwaitState("redis-2", api.TaskRunning)
		for _, task := range old.Tasks() { // the machine is cut off, and still runs the first one
			if task.Task == "redis-2" {
				t.Error("it runs on the agent that was given up")
			}
		}
	})
}

// TestRedisHasANewHomeAfterADrain: an agent that is given up after it was drained has no task of the server, whose
// scheduler is told all the same, also when it was away or another leader came meanwhile.
func TestRedisHasANewHomeAfterADrain(t *testing.T) {
	for _, away := range []string{"", "scheduler", "leader"} {
		frameworktest.Run(t, disks(2, 3), func(c *frameworktest.Handle) {
			f := start(c)
			f.AwaitState("redis-1", api.TaskRunning)
			old := home(c)
			old.Drain(0)
			old.AwaitDrained()
			old.Isolate()
			old.AwaitState(api.AgentTombstone)
			c.Advance(2 * time.Minute)
			if len(f.States()) != 1 {
				t.Errorf("away %q: %v, and the home may come back", away, f.States())
			}
			if away == "scheduler" {
				f.Kill()
				c.Advance(time.Minute)
			}
			old.MarkGone()
			switch away {
			case "scheduler":
				start(c)
			case "leader":
				c.Leader().Kill() // a launch that was under way to it is DROPPED, and there is one more
			}
			home(c)
		})
	}
}
