package frameworktest_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// TestFullDisks: the agents' disks fill again and again, with and without the agents' reserve. No task is lost or runs
// twice. (R14)
func TestFullDisks(t *testing.T) {
	plan := frameworktest.Plan{Length: 60 * time.Second}
	for i := range 20 {
		kind := []frameworktest.FaultKind{frameworktest.FillDisk, frameworktest.FillDisk, frameworktest.KillAgent, frameworktest.KillLeader}[i%4]
		plan.Faults = append(plan.Faults, frameworktest.Fault{
			At: time.Duration(i) * 2 * time.Second, For: time.Duration(1+i%7) * time.Second, Do: kind, Whom: 1 + i%3, Whom2: i,
		})
	}
	frameworktest.Run(t, frameworktest.Cluster{Masters: 3, Agents: 3, Latency: 50 * time.Millisecond}, func(c *frameworktest.Handle) {
		b := newBatch(200, "sleep 3s")
		c.Start(framework.Config{Name: "batch", FailoverTimeout: time.Hour}, b)
		full := 0
		c.Chaos(frameworktest.Chaos{Plan: plan, Between: func() { full += unable(c) }})
		c.AwaitFor(time.Hour, "all jobs to be done", func() bool { return b.left.Load() == 0 })
		c.AwaitSettled()
		if full == 0 {
			t.Error("no agent ever said that it can start nothing: the disks were not full")
		}
		if now := unable(c); now > 0 {
			t.Errorf("%d agents can start nothing, and all disks have room", now)
		}
	})
}

// unable counts the agents that can start nothing, as the leader knows it; without a leader it returns 0.
func unable(c *frameworktest.Handle) int {
	operator := c.Operator()
	if operator == nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	answer, err := operator.ListAgents(ctx, &apiv1.ListRequest{})
	if err != nil {
		return 0 // the leader was killed
	}
	count := 0
	for _, agent := range answer.GetItems() {
		if agent.GetState() == api.AgentRunning.String() && slices.Contains(agent.GetIll(), "unable") {
			count++
		}
	}
	return count
}

// TestAFullDiskIsOfferedToNobody: while the disks of all agents are full nothing is offered. So a scheduler that
// launches at once again what is DROPPED waits, instead of doing so in a loop. (R14)
func TestAFullDiskIsOfferedToNobody(t *testing.T) {
	plan := frameworktest.Plan{Length: 10 * time.Second}
	for i := range 2 {
		plan.Faults = append(plan.Faults, frameworktest.Fault{At: 5 * time.Second, For: 10 * time.Minute, Do: frameworktest.FillDisk, Whom: 1 + i})
	}
	frameworktest.Run(t, frameworktest.Cluster{Agents: 2}, func(c *frameworktest.Handle) {
		b := newBatch(500, "sleep 1s")
		f := c.Start(framework.Config{Name: "batch", FailoverTimeout: time.Hour}, b)
		c.Chaos(frameworktest.Chaos{Plan: plan})
		c.AwaitFor(time.Hour, "all jobs to be done", func() bool { return b.left.Load() == 0 })
		c.AwaitSettled()
		if dropped := f.Count(api.TaskDropped); dropped > 40 {
			t.Errorf("%d launches came to agents that could start nothing", dropped)
		}
	})
}
