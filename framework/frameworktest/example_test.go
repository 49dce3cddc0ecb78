package frameworktest_test

import (
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

var t *testing.T // of the test around each example

// A batch of jobs survives the death of the leading master.
func ExampleRun() { //nolint:testableexamples // needs a *testing.T; the other tests of this package run the same
	frameworktest.Run(t, frameworktest.Cluster{Masters: 3, Agents: 3}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "batch"}, newBatch(60, "sleep 20"))
		f.AwaitCount(24, api.TaskRunning)
		c.Leader().Kill()
		if err := f.Await(); err != nil {
			t.Error(err)
		}
		f.ExpectCount(60, api.TaskFinished)
	})
}

// A minute of faults, drawn from a seed; then everything is whole again and the work comes to its end.
func ExampleHandle_Chaos() { //nolint:testableexamples // needs a *testing.T; the other tests of this package run the same
	frameworktest.Run(t, frameworktest.Cluster{Masters: 3, Agents: 5}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "batch", FailoverTimeout: time.Hour}, newBatch(200, "sleep 5"))
		c.Chaos(frameworktest.Chaos{
			Plan:  frameworktest.NewPlan(42, time.Minute),
			Again: func(killed *frameworktest.Framework) framework.Scheduler { return killed.Scheduler() },
		})
		_ = f.Await()
		c.AwaitSettled()
	})
}

// Two tasks of eight make room for a framework of higher priority.
func ExampleHandle_Preempt() { //nolint:testableexamples // needs a *testing.T; the other tests of this package run the same
	frameworktest.Run(t, frameworktest.Cluster{Allocator: "priority"}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "crew"}, sleepers("a", "b", "c", "d", "e", "f", "g", "h"))
		f.AwaitCount(8, api.TaskRunning)
		urgent := c.Preempt(api.Scalars(1, 256))
		f.AwaitCount(2, api.TaskKilled)
		_ = urgent.Teardown()
	})
}

// An agent that the leader alone does not see is lost to it, until the two are joined again.
func ExampleHandle_Partition() { //nolint:testableexamples // needs a *testing.T; the other tests of this package run the same
	frameworktest.Run(t, frameworktest.Cluster{Masters: 3, Agents: 2}, func(c *frameworktest.Handle) {
		leader := []frameworktest.Member{c.Leader()}
		far := []frameworktest.Member{c.Agent(2)}
		c.Partition(leader, far)
		c.Agent(2).AwaitState(api.AgentDisconnected)
		c.Join(leader, far)
		c.Agent(2).AwaitState(api.AgentRunning)
	})
}

// The process of one task is killed by the kernel, for want of memory.
func ExampleFramework_EndTask() { //nolint:testableexamples // needs a *testing.T; the other tests of this package run the same
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "crew"}, sleepers("job"))
		f.EndTask("job", frameworktest.Play{ExitCode: 137, Message: "out of memory"})
		f.AwaitState("job", api.TaskFailed)
	})
}

// A guest runs on what a service leaves unused, and is revoked when the service needs it.
func ExampleFramework_Use() { //nolint:testableexamples // needs a *testing.T; the other tests of this package run the same
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "firm"}, service()) // of 3 cpus
		f.Use("service", api.Scalars(1, 128))
		g := c.Start(framework.Config{Name: "guest", Revocable: true}, guests("g1", "g2", "g3"))
		g.AwaitCount(3, api.TaskRunning)
		f.Use("service", api.Scalars(4, 128))
		g.AwaitCount(3, api.TaskKilled)
		g.ExpectReason("g1", api.ReasonRevoked)
	})
}
