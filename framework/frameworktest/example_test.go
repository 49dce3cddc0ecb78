package frameworktest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

var t *testing.T // the test around the example

// A batch of jobs survives the death of the leading master. The other examples of this
// package use [frameworktest.Example] instead of a test.
func ExampleRun() { //nolint:testableexamples // needs a *testing.T; ExampleExample runs the same
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

// An example in the documentation of a framework may run a cluster too.
func ExampleExample() {
	frameworktest.Example(frameworktest.Cluster{Masters: 3, Agents: 3}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "batch"}, newBatch(60, "sleep 20"))
		f.AwaitCount(24, api.TaskRunning)
		c.Leader().Kill()
		fmt.Println("Run returned", f.Await())
		fmt.Println(f.Count(api.TaskFinished), "jobs are done")
	})
	// Output:
	// Run returned <nil>
	// 60 jobs are done
}

// The cluster has half a minute of faults, drawn from a seed. Then everything is whole again, and the work finishes. A
// test that fails prints the plan.
func ExampleHandle_Chaos() {
	frameworktest.Example(frameworktest.Cluster{Masters: 3, Agents: 3}, func(c *frameworktest.Handle) {
		c.Start(framework.Config{Name: "batch", FailoverTimeout: time.Hour}, newBatch(100, "sleep 10"))
		c.Chaos(frameworktest.Chaos{
			Plan:  frameworktest.NewPlan(42, 30*time.Second),
			Again: func(killed *frameworktest.Framework) framework.Scheduler { return killed.Scheduler() },
		})
		c.AwaitEnded() // none has ended with an error
		c.AwaitSettled()
		fmt.Println("all is done")
	})
	// Output: all is done
}

// Two tasks of eight make room for a framework of higher priority.
func ExampleHandle_Preempt() {
	frameworktest.Example(frameworktest.Cluster{Allocator: "priority"}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "crew"}, sleepers("a", "b", "c", "d", "e", "f", "g", "h"))
		f.AwaitCount(8, api.TaskRunning)
		urgent := c.Preempt(api.Scalars(1, 256))
		f.AwaitCount(2, api.TaskKilled)
		fmt.Println(f.Count(api.TaskRunning), "go on")
		fmt.Println(urgent.Teardown())
	})
	// Output:
	// 6 go on
	// <nil>
}

// If only the leader can't reach an agent, the agent is lost to it until the two are joined again.
func ExampleHandle_Partition() {
	frameworktest.Example(frameworktest.Cluster{Masters: 3, Agents: 2}, func(c *frameworktest.Handle) {
		leader := []frameworktest.Member{c.Leader()}
		far := []frameworktest.Member{c.Agent(2)}
		c.Partition(leader, far)
		c.Agent(2).AwaitState(api.AgentDisconnected)
		c.Join(leader, far)
		c.Agent(2).AwaitState(api.AgentRunning)
		fmt.Println("back after less than a minute:", c.Now() < time.Minute)
	})
	// Output: back after less than a minute: true
}

// The kernel kills the process of one task because memory is short.
func ExampleFramework_EndTask() {
	frameworktest.Example(frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "crew"}, sleepers("job"))
		f.EndTask("job", frameworktest.Play{ExitCode: 137, Message: "out of memory"})
		status := f.AwaitState("job", api.TaskFailed)
		fmt.Println(status.State, *status.ExitCode, status.Message)
	})
	// Output: FAILED 137 out of memory
}

// A guest runs on what a service leaves unused, and is revoked when the service needs it.
func ExampleFramework_Use() {
	frameworktest.Example(frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "firm"}, service()) // of 3 cpus
		f.Use("service", api.Scalars(1, 128))
		g := c.Start(framework.Config{Name: "guest", Revocable: true}, guests("g1", "g2", "g3"))
		g.AwaitCount(3, api.TaskRunning)
		f.Use("service", api.Scalars(4, 128))
		g.AwaitCount(3, api.TaskKilled)
		fmt.Println(g.AwaitState("g1", api.TaskKilled).Reason)
	})
	// Output: REVOKED
}

// A whole hour takes a moment, with as many agents as the test likes.
func ExampleHandle_Advance() {
	frameworktest.Example(frameworktest.Cluster{Agents: 2, Heartbeat: 10 * time.Second}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "crew"}, sleepers("a", "b", "c"))
		f.AwaitCount(3, api.TaskRunning)
		c.Advance(time.Hour)
		f.ExpectCount(3, api.TaskRunning)
		fmt.Println(c.Now().Round(time.Minute))
	})
	// Output: 1h0m0s
}
