package frameworktest_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// crew launches each of its tasks once, whatever happens to them.
type crew []api.Task

// sleepers makes a crew of tasks with half a cpu each, which run until somebody ends them.
func sleepers(ids ...api.TaskID) *crew {
	var c crew
	for _, id := range ids {
		c = append(c, api.Task{ID: id, Resources: api.Scalars(0.5, 128), Command: &api.Command{Shell: "sleep infinity"}})
	}
	return &c
}

func (c *crew) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	var answers []api.Answer
	for _, offer := range offers {
		var tasks []api.Task
		for left := offer.Resources; len(*c) > 0; {
			rest, fits := left.Minus((*c)[0].Resources)
			if !fits {
				break
			}
			left, tasks, *c = rest, append(tasks, (*c)[0]), (*c)[1:]
		}
		if len(tasks) > 0 {
			answers = append(answers, api.Launch(offer, tasks...))
		}
	}
	return answers
}

func (c *crew) Update(context.Context, api.Status) error { return nil }

// hoarder keeps all offers.
type hoarder struct{ crew }

func (h *hoarder) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	var answers []api.Answer
	for _, offer := range offers {
		answers = append(answers, api.Keep(offer))
	}
	return answers
}

func TestDrain(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "crew"}, sleepers("a", "b"))
		f.AwaitCount(2, api.TaskRunning)
		c.Agent(1).Drain(time.Second)
		c.Agent(1).AwaitDrained()
		f.ExpectLife("a", api.TaskRunning, api.TaskKilling, api.TaskKilled)
		f.ExpectReason("a", api.ReasonAgentDraining)

		before := f.Offered()
		c.Never(time.Minute, "a drained agent is offered", func() bool { return f.Offered() > before })
		c.Agent(1).Reactivate()
		f.AwaitOffers(before + 1)
	})
}

func TestDeactivate(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "crew"}, sleepers("a"))
		f.AwaitState("a", api.TaskRunning)
		c.Agent(1).Deactivate()
		c.Advance(time.Minute)
		f.ExpectCount(1, api.TaskRunning)
	})
}

func TestRescindOffers(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "hoarder"}, &hoarder{})
		f.AwaitOffers(1)
		c.Agent(1).RescindOffers()
		c.Await("the scheduler to hear of it", func() bool { return f.Rescinded() == 1 })
		f.AwaitOffers(2)
	})
}

func TestPreempt(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Allocator: "priority"}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "crew"}, sleepers("a", "b", "c", "d", "e", "f", "g", "h"))
		f.AwaitCount(8, api.TaskRunning)
		urgent := c.Preempt(api.Scalars(1, 256))
		f.AwaitCount(2, api.TaskKilled)
		f.ExpectCount(6, api.TaskRunning)
		for task, state := range f.States() {
			if state == api.TaskKilled {
				f.ExpectReason(task, api.ReasonPreempted)
			}
		}
		if err := urgent.Teardown(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestLose(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 2}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "batch"}, newBatch(16, "sleep 1h"))
		f.AwaitCount(16, api.TaskRunning)
		c.Agent(2).Lose()
		f.AwaitCount(8, api.TaskUnreachable)
		f.ExpectCount(8, api.TaskRunning)
		c.Agent(2).MarkGone()
		f.AwaitCount(8, api.TaskGoneByOperator)
	})
}

func TestEndTask(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "crew"}, sleepers("fails", "ends-well", "crashes", "stays"))
		f.EndTask("fails", frameworktest.Play{ExitCode: 137, Message: "out of memory"})
		if s := f.AwaitState("fails", api.TaskFailed); s.Message != "out of memory" || s.ExitCode == nil || *s.ExitCode != 137 {
			t.Errorf("told %+v", s)
		}
		f.EndTask("ends-well", frameworktest.Play{})
		f.AwaitState("ends-well", api.TaskFinished)
		f.ExpectCount(2, api.TaskRunning)
		f.EndTask("crashes", frameworktest.Play{Crash: true})
		f.AwaitState("crashes", api.TaskFailed)
		f.ExpectReason("crashes", api.ReasonAgentFailed)
	})
}

// TestUse: if tasks use more than they have asked for, less of the agent is offered.
func TestUse(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "crew"}, sleepers("a"))
		f.AwaitState("a", api.TaskRunning)
		f.Use("a", api.Scalars(3, 128))
		c.Advance(time.Minute)
		watcher := &largest{}
		c.Start(framework.Config{Name: "watcher", Roles: []api.Role{"watcher"}}, watcher)
		c.Await("the watcher to be offered something", func() bool { return watcher.cpus.Load() > 0 })
		if most := api.Milli(watcher.cpus.Load()); most != 1000 {
			t.Errorf("%v cpus are offered of an agent of 4 on which 3 are in use", most)
		}
	})
}

// largest remembers the most cpus that it was ever offered.
type largest struct {
	crew
	cpus atomic.Int64
}

func (l *largest) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	for _, offer := range offers {
		l.cpus.Store(max(l.cpus.Load(), int64(offer.Resources.Scalar("cpus"))))
	}
	return nil
}

// TestPartition: agents that only the leader can't reach are lost to it until they are joined again.
func TestPartition(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Masters: 3, Agents: 2}, func(c *frameworktest.Handle) {
		leader := []frameworktest.Member{c.Leader()}
		far := []frameworktest.Member{c.Agent(2)}
		c.Partition(leader, far)
		c.Agent(2).AwaitState(api.AgentDisconnected)
		c.Join(leader, far)
		c.Agent(2).AwaitState(api.AgentRunning)
	})
}

// TestQuota: a limit holds, and when it is lifted the work goes on.
func TestQuota(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		c.Limit("small", api.Scalars(1, 1024))
		f := c.Start(framework.Config{Name: "crew", Roles: []api.Role{"small"}}, sleepers("a", "b", "c"))
		f.AwaitCount(2, api.TaskRunning)
		c.Advance(time.Minute)
		f.ExpectCount(2, api.TaskRunning)
		c.Limit("small", api.Resources{})
		f.AwaitCount(3, api.TaskRunning)
	})
}

// TestGuarantee: what is kept for a role's guarantee is not offered to another role, however long that one waits.
func TestGuarantee(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		c.Guarantee("kept", api.Scalars(3, 3072))
		f := c.Start(framework.Config{Name: "greedy"}, sleepers("a", "b", "c", "d"))
		f.AwaitCount(2, api.TaskRunning)
		c.Never(time.Minute, "the guarantee is given away", func() bool { return f.Count(api.TaskRunning) > 2 })
	})
}
