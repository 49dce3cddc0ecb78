package frameworktest_test

import (
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

func TestBatch(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "batch"}, newBatch(20, "sleep 10"))
		if err := f.Await(); err != nil {
			t.Fatal(err)
		}
		if n := f.Count(api.TaskFinished); n != 20 {
			t.Errorf("%d jobs finished", n)
		}
		// Eight tasks fit at once, so the batch takes three rounds of ten seconds.
		if took := c.Now(); took < 30*time.Second || took > 60*time.Second {
			t.Errorf("it took %v", took)
		}
		c.AwaitQuiet()
	})
}

// TestLeaderKilled: running tasks continue, and the batch ends as if nothing had happened.
func TestLeaderKilled(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Masters: 3, Agents: 3}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "batch"}, newBatch(60, "sleep 20"))
		f.AwaitCount(24, api.TaskRunning)
		old := c.Leader()
		old.Kill()
		c.Advance(5 * time.Second)
		if now := c.Leader(); now == old {
			t.Error("a dead master leads")
		}
		old.Start()
		if err := f.Await(); err != nil {
			t.Fatal(err)
		}
		c.AwaitSettled()
		if n := f.Count(api.TaskFinished); n != 60 {
			t.Errorf("%d jobs finished at the first try", n)
		}
	})
}

// TestGap: what is asked for and what happens while there is no leader is not lost: a kill, the end of a task, and an
// acknowledgement that the killed leader may not have passed on.
func TestGap(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Masters: 3, Agents: 2}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "crew"}, sleepers("killed", "ends", "acknowledged"))
		f.AwaitCount(3, api.TaskRunning)
		old := c.Leader()
		f.EndTask("acknowledged", frameworktest.Play{})
		f.AwaitState("acknowledged", api.TaskFinished)
		old.Kill()
		if err := f.Client().Kill("killed"); err != nil {
			t.Error(err)
		}
		f.EndTask("ends", frameworktest.Play{})
		f.AwaitState("killed", api.TaskKilled)
		f.AwaitState("ends", api.TaskFinished)
		c.AwaitSettled()
		f.ExpectReason("killed", api.ReasonKilledByFramework)
		f.ExpectCount(2, api.TaskFinished)
	})
}

// TestAgentRestart: the agent's process is killed and started again. Its executors and tasks do not notice.
func TestAgentRestart(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "batch"}, newBatch(8, "sleep 20"))
		f.AwaitCount(8, api.TaskRunning)
		c.Agent(1).Kill()
		c.Advance(12 * time.Second)
		c.Agent(1).Start()
		if err := f.Await(); err != nil {
			t.Fatal(err)
		}
		c.AwaitSettled()
		if n := f.Count(api.TaskFinished); n != 8 {
			t.Errorf("%d jobs finished at the first try", n)
		}
	})
}

// TestAgentReboots: the tasks that ran there are GONE. The batch is told so, and tries them again.
func TestAgentReboots(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "batch"}, newBatch(8, "sleep 20"))
		f.AwaitCount(8, api.TaskRunning)
		c.Agent(1).Kill()
		c.Agent(1).Reboot()
		c.Agent(1).Start()
		if err := f.Await(); err != nil {
			t.Fatal(err)
		}
		c.AwaitSettled()
		if gone, finished := f.Count(api.TaskGone), f.Count(api.TaskFinished); gone != 8 || finished != 8 {
			t.Errorf("%d tasks are gone, %d finished", gone, finished)
		}
	})
}

// TestAgentPartitioned: after TombstoneAfter the agent's tasks are UNREACHABLE. When the agent is back, their real
// states are told.
func TestAgentPartitioned(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 2}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "batch"}, newBatch(16, "sleep 100"))
		f.AwaitCount(16, api.TaskRunning)
		c.Agent(1).Isolate()
		f.AwaitCount(8, api.TaskUnreachable)
		c.Agent(1).Rejoin()
		f.AwaitCount(16, api.TaskRunning)
		if err := f.Await(); err != nil {
			t.Fatal(err)
		}
		c.AwaitSettled()
		if n := f.Count(api.TaskFinished); n != 16 {
			t.Errorf("%d jobs finished at the first try", n)
		}
	})
}

// TestLeaderPartitioned: the leader that is left with a minority steps down. Agents and framework find the new leader.
func TestLeaderPartitioned(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Masters: 3, Agents: 2}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "batch"}, newBatch(32, "sleep 15"))
		f.AwaitCount(16, api.TaskRunning)
		c.Leader().Isolate()
		if err := f.Await(); err != nil {
			t.Fatal(err)
		}
		c.Mend()
		c.AwaitSettled()
		if n := f.Count(api.TaskFinished); n != 32 {
			t.Errorf("%d jobs finished at the first try", n)
		}
	})
}

// TestSchedulerKilled: the successor is told of all tasks without asking.
func TestSchedulerKilled(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		first := c.Start(framework.Config{Name: "batch"}, newBatch(8, "sleep 60"))
		first.AwaitCount(8, api.TaskRunning)
		first.Kill()
		second := first.Again(newBatch(0, ""))
		second.AwaitCount(8, api.TaskRunning)
		second.AwaitCount(8, api.TaskFinished)
		if err := second.Stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestTimePasses: while a task sleeps, nobody waits in real time.
func TestTimePasses(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "batch"}, newBatch(1, "sleep 20m"))
		if err := f.Await(); err != nil {
			t.Fatal(err)
		}
		if c.Now() < 20*time.Minute {
			t.Errorf("it took %v", c.Now())
		}
	})
}
