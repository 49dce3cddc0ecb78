package taskset_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/locality"
	"github.com/tenderhq/tender/framework/pack"
	"github.com/tenderhq/tender/framework/taskset"
)

func command(id, line string) taskset.Item {
	return taskset.Item{ID: id, Task: api.Task{Resources: api.Scalars(0.5, 128), Command: &api.Command{Shell: line}}}
}

// queue makes a closed set of n items that each run the command line.
func queue(t *testing.T, config taskset.Config, n int, line string) *taskset.Set {
	t.Helper()
	set := taskset.New(config)
	for i := range n {
		if err := set.Add(context.Background(), command(fmt.Sprint("item-", i), line)); err != nil {
			t.Fatal(err)
		}
	}
	set.Close()
	return set
}

func mustEnd(t *testing.T, f *frameworktest.Framework) {
	t.Helper()
	if err := f.Await(); err != nil {
		t.Fatal(err)
	}
}

func wantNumbers(t *testing.T, set *taskset.Set, want taskset.Numbers) {
	t.Helper()
	if got := set.Numbers(); got != want {
		t.Errorf("numbers %+v, want %+v", got, want)
	}
}

func TestQueueRunsEachItemOnce(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 2}, func(c *frameworktest.Handle) {
		ended := map[string]int{}
		set := queue(t, taskset.Config{Ended: func(o taskset.Outcome) { ended[o.Item]++ }}, 40, "sleep 10")
		f := c.Start(framework.Config{Name: "batch"}, set)
		mustEnd(t, f)
		if n := f.Count(api.TaskFinished); n != 40 || len(ended) != 40 || ended["item-7"] != 1 {
			t.Errorf("%d tasks finished, %d items ended", n, len(ended))
		}
		wantNumbers(t, set, taskset.Numbers{Done: 40, Attempts: 40})
		// 16 items fit at once, so 40 take three rounds of ten seconds.
		if took := c.Now(); took < 30*time.Second || took > 35*time.Second {
			t.Errorf("it took %v", took)
		}
		c.AwaitQuiet()
	})
}

// attemptOf returns the number of a task's attempt among those of its item.
func attemptOf(task api.TaskID) string {
	parts := strings.Split(string(task), ".")
	return parts[len(parts)-2]
}

func TestFailuresAreTriedAgainAfterAPause(t *testing.T) {
	cluster := frameworktest.Cluster{Agents: 2, Script: func(task api.Task) frameworktest.Play {
		if attemptOf(task.ID) < "4" {
			return frameworktest.Play{ExitCode: 1}
		}
		return frameworktest.Play{}
	}}
	frameworktest.Run(t, cluster, func(c *frameworktest.Handle) {
		set := queue(t, taskset.Config{}, 1, "x")
		began := c.Now()
		mustEnd(t, c.Start(framework.Config{Name: "batch"}, set))
		wantNumbers(t, set, taskset.Numbers{Done: 1, Attempts: 4, Failed: 3})
		if took := c.Now() - began; took < 3500*time.Millisecond || took > 8*time.Second {
			t.Errorf("pauses of 1, 2 and 4 s less up to a half took %v", took)
		}
		if err := set.Err(); err != nil {
			t.Error(err)
		}
	})
}

func TestGivesUp(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		var outcome taskset.Outcome
		set := taskset.New(taskset.Config{Attempts: 2, Ended: func(o taskset.Outcome) {
			if !o.Done {
				outcome = o
			}
		}})
		if err := set.Add(context.Background(), command("bad", "exit 3"), command("good", "sleep 1")); err != nil {
			t.Fatal(err)
		}
		if err := set.Add(context.Background(), command("bad", "true"), command("a/b", "true")); api.KindOf(err) == 0 || !strings.Contains(err.Error(), "a/b") {
			t.Errorf("a second item of one ID and a wrong ID: %v", err)
		}
		set.Close()
		mustEnd(t, c.Start(framework.Config{Name: "batch"}, set))
		wantNumbers(t, set, taskset.Numbers{Done: 1, GivenUp: 1, Attempts: 3, Failed: 2})
		if err := set.Err(); err == nil || err.Error() != "1 item was given up: bad: 2 attempts failed, the last: FAILED exited with 3" {
			t.Errorf("Err says %v", err)
		}
		if outcome.Item != "bad" || outcome.Attempts != 2 || outcome.Status.State != api.TaskFailed {
			t.Errorf("outcome %+v", outcome)
		}
	})
}

// TestWhatCanNeverRunIsGivenUpAtOnce: an item whose task asks for a number of ports, as only a demand may, is refused
// by the master. It is given up at once.
func TestWhatCanNeverRunIsGivenUpAtOnce(t *testing.T) {
	resources, err := api.ParseResources("cpus:4;mem:4096;ports:[31000-31009]")
	if err != nil {
		t.Fatal(err)
	}
	frameworktest.Run(t, frameworktest.Cluster{Machine: frameworktest.Machine{Resources: resources}}, func(c *frameworktest.Handle) {
		set := taskset.New(taskset.Config{})
		item := command("nothing", "true")
		item.Task.Resources = item.Task.Resources.Plus(api.NewResources(api.Resource{Label: api.Label{Name: "ports"}, Scalar: api.MilliOf(2)}))
		if err := set.Add(context.Background(), item); err != nil {
			t.Fatal(err)
		}
		set.Close()
		mustEnd(t, c.Start(framework.Config{Name: "batch"}, set))
		wantNumbers(t, set, taskset.Numbers{GivenUp: 1, Attempts: 1, Failed: 1})
	})
}

func TestDeadlines(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		set := queue(t, taskset.Config{Attempts: 2, AttemptTimeout: 10 * time.Second}, 1, "sleep infinity")
		mustEnd(t, c.Start(framework.Config{Name: "slow"}, set))
		wantNumbers(t, set, taskset.Numbers{GivenUp: 1, Attempts: 2, Failed: 2})
		whole := queue(t, taskset.Config{Timeout: time.Minute}, 1, "sleep infinity")
		mustEnd(t, c.Start(framework.Config{Name: "late"}, whole))
		if err := whole.Err(); err == nil || !strings.Contains(err.Error(), "item-0: it was not done within 1m0s") {
			t.Errorf("Err says %v", err)
		}
	})
}

// TestServiceIsKeptUp: a service keeps its number of tasks, however these end, and is scaled up and down.
func TestServiceIsKeptUp(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 3}, func(c *frameworktest.Handle) {
		set := taskset.New(taskset.Config{Apart: api.ByAgent})
		web := command("", "sleep infinity")
		if err := set.Scale(context.Background(), "web", web, 2); err != nil {
			t.Fatal(err)
		}
		f := c.Start(framework.Config{Name: "web"}, set)
		c.AwaitRunning(2)
		for _, a := range []int{1, 2, 3} {
			if n := len(c.Agent(a).Tasks()); n > 1 {
				t.Errorf("agent %d runs %d of them", a, n)
			}
		}
		busy := slices.IndexFunc([]int{1, 2, 3}, func(a int) bool { return len(c.Agent(a).Tasks()) > 0 }) + 1
		c.Agent(busy).KillExecutor(0)
		f.AwaitCount(1, api.TaskFailed)
		c.AwaitRunning(2)
		c.Agent(busy).Reboot()
		c.AwaitRunning(2)
		c.Agent(busy).Start()
		c.Advance(time.Minute)
		if err := set.Scale(context.Background(), "web", web, 3); err != nil {
			t.Fatal(err)
		}
		c.AwaitRunning(3)
		if err := set.Scale(context.Background(), "web", web, 1); err != nil {
			t.Fatal(err)
		}
		f.AwaitCount(2, api.TaskKilled)
		if n := set.Numbers(); n.Items != 1 || n.Running != 1 || n.Waiting != 0 {
			t.Errorf("numbers %+v", n)
		}
		if err := f.Stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestUnreachable: the task of a silent agent is replaced. When the agent comes back, one of the two tasks is killed.
func TestUnreachable(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 2}, func(c *frameworktest.Handle) {
		set := taskset.New(taskset.Config{})
		if err := set.Scale(context.Background(), "web", command("", "sleep infinity"), 1); err != nil {
			t.Fatal(err)
		}
		f := c.Start(framework.Config{Name: "web"}, set)
		c.AwaitRunning(1)
		first := 1 + slices.IndexFunc([]int{1, 2}, func(a int) bool { return len(c.Agent(a).Tasks()) == 1 })
		c.Agent(first).Isolate()
		f.AwaitCount(1, api.TaskUnreachable)
		f.AwaitCount(1, api.TaskRunning)
		c.Agent(first).Rejoin()
		f.AwaitCount(1, api.TaskKilled)
		c.Advance(10 * time.Second)
		c.AwaitRunning(1)
		if n := set.Numbers(); n.Running != 1 || n.Attempts != 2 {
			t.Errorf("numbers %+v", n)
		}
	})
}

// TestSchedulerKilled: the next process continues with the tasks that run, and starts nothing twice.
func TestSchedulerKilled(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		first := c.Start(framework.Config{Name: "batch"}, queue(t, taskset.Config{}, 12, "sleep 60"))
		first.AwaitCount(8, api.TaskRunning)
		first.Kill()
		set := queue(t, taskset.Config{}, 11, "sleep 60")
		second := first.Again(set)
		mustEnd(t, second)
		n := set.Numbers()
		if n.Done != 11 || n.Attempts > 11-7 || n.Failed+n.Lost > 0 {
			t.Errorf("numbers %+v", n)
		}
	})
}

// TestRemember: after a restart, what was done stays done, and what has failed stays failed.
func TestRemember(t *testing.T) {
	cluster := frameworktest.Cluster{Script: func(task api.Task) frameworktest.Play {
		switch {
		case strings.HasPrefix(string(task.ID), "item-0."):
			return frameworktest.Play{ExitCode: 1}
		case strings.HasPrefix(string(task.ID), "item-1."):
			return frameworktest.Play{Duration: 10 * time.Minute}
		}
		return frameworktest.Play{Duration: time.Second}
	}}
	frameworktest.Run(t, cluster, func(c *frameworktest.Handle) {
		config := taskset.Config{Remember: "jobs", Attempts: 3, Pause: 100 * time.Second, PauseMax: 100 * time.Second}
		first := c.Start(framework.Config{Name: "batch"}, queue(t, config, 5, "x"))
		first.AwaitCount(3, api.TaskFinished)
		first.AwaitCount(1, api.TaskFailed)
		c.Advance(10 * time.Second)
		first.Kill()
		set := queue(t, config, 5, "x")
		second := first.Again(set)
		mustEnd(t, second)
		wantNumbers(t, set, taskset.Numbers{Done: 4, GivenUp: 1, Attempts: 2, Failed: 2})
	})
}

// TestStragglers: a slow task gets a copy on another agent, and the copy ends first.
func TestStragglers(t *testing.T) {
	cluster := frameworktest.Cluster{Agents: 2, Script: func(task api.Task) frameworktest.Play {
		if strings.HasPrefix(string(task.ID), "item-3.1.") {
			return frameworktest.Play{Duration: time.Hour}
		}
		return frameworktest.Play{Duration: 10 * time.Second}
	}}
	frameworktest.Run(t, cluster, func(c *frameworktest.Handle) {
		var won taskset.Outcome
		set := queue(t, taskset.Config{Speculate: 1.5, Ended: func(o taskset.Outcome) {
			if o.Item == "item-3" {
				won = o
			}
		}}, 8, "x")
		f := c.Start(framework.Config{Name: "batch"}, set)
		mustEnd(t, f)
		n := set.Numbers()
		n.Running = 0 // the slow task is killed with the framework
		if n != (taskset.Numbers{Done: 8, Attempts: 9, Copies: 1, CopiesWon: 1}) {
			t.Errorf("numbers %+v", n)
		}
		if took := c.Now(); took < 25*time.Second || took > 27*time.Second {
			t.Errorf("15 s and a copy of 10 s took %v", took)
		}
		for task, state := range f.States() {
			if strings.HasPrefix(string(task), "item-3.1.") && f.Statuses(task)[0].Agent == won.Status.Agent {
				t.Errorf("the copy ran beside the %v original on %s", state, won.Status.Agent)
			}
		}
	})
}

// TestNoCopiesUnlessAsked: without Speculate a slow task gets no copy.
func TestNoCopiesUnlessAsked(t *testing.T) {
	cluster := frameworktest.Cluster{Agents: 2, Script: func(task api.Task) frameworktest.Play {
		if strings.HasPrefix(string(task.ID), "item-3.1.") {
			return frameworktest.Play{Duration: 10 * time.Minute}
		}
		return frameworktest.Play{Duration: 10 * time.Second}
	}}
	frameworktest.Run(t, cluster, func(c *frameworktest.Handle) {
		set := queue(t, taskset.Config{}, 8, "x")
		mustEnd(t, c.Start(framework.Config{Name: "batch"}, set))
		wantNumbers(t, set, taskset.Numbers{Done: 8, Attempts: 8})
		if took := c.Now(); took < 10*time.Minute {
			t.Errorf("the straggler of ten minutes took %v", took)
		}
	})
}

// TestSmallRestsAreUsed: what is free on the agent where the executor runs is too little for another executor, but
// enough for a task. It is used.
func TestSmallRestsAreUsed(t *testing.T) {
	self := &api.Executor{ID: "own", Command: api.Command{Argv: []string{"own"}}, Resources: api.Scalars(2, 64)}
	cluster := frameworktest.Cluster{Executors: map[api.ExecutorID]frameworktest.ExecutorFunc{
		"own": func(ctx context.Context, _ *executor.Task) error { <-ctx.Done(); return ctx.Err() },
	}}
	frameworktest.Run(t, cluster, func(c *frameworktest.Handle) {
		set := taskset.New(taskset.Config{})
		for i := range 5 { // 2 + 1 + 4 * 0.25 = 4 cpus
			cpus := 0.25
			if i == 0 {
				cpus = 1
			}
			if err := set.Add(context.Background(), taskset.Item{ID: fmt.Sprint("item-", i), Task: api.Task{Resources: api.Scalars(cpus, 32), Executor: self}}); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				c.Start(framework.Config{Name: "batch"}, set)
				c.AwaitRunning(1)
				c.Advance(time.Minute)
			}
		}
		c.AwaitRunning(4)
	})
}

// TestServiceLeavesForMaintenance: before maintenance a service's task is started elsewhere, and only then killed here.
// It is not started on an agent that has maintenance too. The task of a queue's item stays until the maintenance
// begins.
func TestServiceLeavesForMaintenance(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 3}, func(c *frameworktest.Handle) {
		set := taskset.New(taskset.Config{})
		if err := set.Scale(context.Background(), "web", command("", "sleep infinity"), 1); err != nil {
			t.Fatal(err)
		}
		f := c.Start(framework.Config{Name: "web"}, set)
		c.AwaitRunning(1)
		job := command("job", "sleep infinity")
		first := whereRuns(c)
		job.Prefer.Agents = []api.AgentID{c.Agent(first).ID()}
		if err := set.Add(context.Background(), job); err != nil {
			t.Fatal(err)
		}
		c.AwaitRunning(2)
		other := first%3 + 1
		third := other%3 + 1
		for _, a := range []int{other, first} {
			c.Agent(a).Maintain(10*time.Minute, time.Hour)
		}
		c.Await("the service to run elsewhere alone", func() bool { return f.Count(api.TaskKilled) == 1 })
		if n := set.Numbers(); n.Moves != 1 || n.Running != 2 || n.Attempts != 3 || n.Lost+n.Failed > 0 {
			t.Errorf("numbers %+v", n)
		}
		if len(c.Agent(third).Tasks()) != 1 || len(c.Agent(first).Tasks()) != 1 {
			t.Errorf("agent %d runs %v, agent %d runs %v", first, c.Agent(first).Tasks(), third, c.Agent(third).Tasks())
		}
		c.Advance(15 * time.Minute)
		if n := set.Numbers(); n.Lost != 1 || n.Running != 2 || len(c.Agent(third).Tasks()) != 2 {
			t.Errorf("after the window began: numbers %+v", n)
		}
	})
}

// TestServiceIsPreempted: if there is no room elsewhere in time, a service's task is killed, and started again later.
func TestServiceIsPreempted(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Allocator: "priority"}, func(c *frameworktest.Handle) {
		set := taskset.New(taskset.Config{})
		web := command("", "sleep infinity")
		web.Task.Resources = api.Scalars(3, 512)
		if err := set.Scale(context.Background(), "web", web, 1); err != nil {
			t.Fatal(err)
		}
		f := c.Start(framework.Config{Name: "web"}, set)
		c.AwaitRunning(1)
		urgent := c.Preempt(api.Scalars(3, 512))
		if n := set.Numbers(); n.Running != 0 || n.Lost != 1 || n.Moves != 0 || n.Waiting != 1 {
			t.Errorf("without room: %+v", n)
		}
		if err := urgent.Teardown(); err != nil {
			t.Fatal(err)
		}
		f.AwaitCount(1, api.TaskRunning)
		if n := set.Numbers(); n.Running != 1 || n.Attempts != 2 {
			t.Errorf("with room again: %+v", n)
		}
	})
}

// TestServiceStays: when the maintenance is called off, no more tasks are moved.
func TestServiceStays(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Heartbeat: 10 * time.Second}, func(c *frameworktest.Handle) {
		set := taskset.New(taskset.Config{})
		if err := set.Scale(context.Background(), "web", command("", "sleep infinity"), 1); err != nil {
			t.Fatal(err)
		}
		c.Start(framework.Config{Name: "web"}, set)
		c.AwaitRunning(1)
		c.Agent(1).Maintain(time.Hour, time.Hour)
		c.Await("another to be wanted", func() bool { return set.Numbers().Waiting == 1 })
		c.Agent(1).CancelMaintenance()
		c.Await("nothing to be wanted", func() bool { return set.Numbers().Waiting == 0 })
		c.AddAgent(frameworktest.Machine{})
		c.Advance(3 * time.Hour)
		if n := set.Numbers(); n.Attempts != 1 || n.Running != 1 {
			t.Errorf("numbers %+v", n)
		}
	})
}

func whereRuns(c *frameworktest.Handle) int {
	return 1 + slices.IndexFunc(c.Agents(), func(a *frameworktest.Agent) bool { return len(a.Tasks()) > 0 })
}

// TestLocality: items wait for the agents that they prefer, but no longer than they should.
func TestLocality(t *testing.T) {
	for _, withhold := range []bool{false, true} {
		t.Run(fmt.Sprint("withhold ", withhold), func(t *testing.T) {
			frameworktest.Run(t, frameworktest.Cluster{Agents: 3}, func(c *frameworktest.Handle) {
				config := taskset.Config{Locality: locality.Config{Node: locality.Wait{Time: 5 * time.Second}, Withhold: withhold}}
				set := taskset.New(config)
				home := c.Agent(2).ID()
				for i := range 8 + 4 { // there is room for eight there
					one := command(fmt.Sprint("item-", i), "sleep 60")
					one.Prefer.Agents = []api.AgentID{home}
					if err := set.Add(context.Background(), one); err != nil {
						t.Fatal(err)
					}
				}
				set.Close()
				f := c.Start(framework.Config{Name: "batch"}, set)
				f.AwaitCount(8, api.TaskRunning)
				if n := len(c.Agent(2).Tasks()); n != 8 || c.Now() > 5*time.Second {
					t.Errorf("%d tasks are at home after %v", n, c.Now())
				}
				f.AwaitCount(12, api.TaskRunning)
				if c.Now() < 5*time.Second || c.Now() > 12*time.Second {
					t.Errorf("the others run after %v", c.Now())
				}
				mustEnd(t, f)
				n := set.Locality()
				if n.Launched != [3]int{8, 0, 4} || n.Longest < 5*time.Second || n.Longest > 10*time.Second {
					t.Errorf("numbers %+v", n)
				}
			})
		})
	}
}

// counting counts the offers that its set gets.
type counting struct {
	*taskset.Set
	offers int
}

func (s *counting) Offers(ctx context.Context, offers []api.Offer) []api.Answer {
	s.offers += len(offers)
	return s.Set.Offers(ctx, offers)
}

// TestNothingIsOfferedThatNobodyWants: without demand there are no offers.
func TestNothingIsOfferedThatNobodyWants(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 3, Heartbeat: 10 * time.Second}, func(c *frameworktest.Handle) {
		s := &counting{Set: taskset.New(taskset.Config{})}
		c.Start(framework.Config{Name: "web", Suppressed: true}, s)
		c.Advance(time.Hour)
		if s.offers > 0 {
			t.Errorf("%d offers for nothing", s.offers)
		}
		if err := s.Scale(context.Background(), "web", command("", "sleep infinity"), 4); err != nil {
			t.Fatal(err)
		}
		c.AwaitRunning(4)
		c.Advance(time.Hour)
		if s.offers > 8 {
			t.Errorf("%d offers for four tasks", s.offers)
		}
	})
}

func TestSpreadAndPorts(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: -1}, func(c *frameworktest.Handle) {
		resources, err := api.ParseResources("cpus:8;mem:8192;ports:[31000-31009]")
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			c.AddAgent(frameworktest.Machine{Resources: resources, Attributes: map[string]string{"rack": fmt.Sprint(i / 2)}})
		}
		c.AwaitAgents(4)
		set := taskset.New(taskset.Config{Spread: api.ByAttribute("rack"), Rank: pack.WorstFit})
		web := command("", "sleep infinity")
		web.Task.Ports = map[string]uint16{"http": 0}
		if err := set.Scale(context.Background(), "web", web, 8); err != nil {
			t.Fatal(err)
		}
		c.Start(framework.Config{Name: "web"}, set)
		c.AwaitRunning(8)
		var byAgent []int
		for a := 1; a <= 4; a++ {
			byAgent = append(byAgent, len(c.Agent(a).Tasks()))
		}
		if byAgent[0]+byAgent[1] != 4 {
			t.Errorf("tasks by agent %v: the racks are not even", byAgent)
		}
	})
}

// TestApartDoesNotWait: on each agent only one task of the set may run. When it has ended, the next one follows at
// once, although the set has refused what was free beside it.
func TestApartDoesNotWait(t *testing.T) {
	for _, n := range []int{2, 3, 8} {
		frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
			f := c.Start(framework.Config{Name: "batch"}, queue(t, taskset.Config{Apart: api.ByAgent}, n, "sleep 1"))
			mustEnd(t, f)
			if ideal := time.Duration(n) * time.Second; c.Now() > ideal+ideal/5+time.Second {
				t.Errorf("%d items of a second took %v, one after the other", n, c.Now())
			}
		})
	}
}

// TestPortsAreDemanded: a set that starts suppressed is offered only what it demands, so its demand must include ports.
// This holds for tasks of its own executor too. No two tasks get the same port.
func TestPortsAreDemanded(t *testing.T) {
	resources, err := api.ParseResources("cpus:4;mem:4096;ports:[31000-31009]")
	if err != nil {
		t.Fatal(err)
	}
	cluster := frameworktest.Cluster{
		Machine: frameworktest.Machine{Resources: resources},
		Executors: map[api.ExecutorID]frameworktest.ExecutorFunc{
			"own": func(ctx context.Context, _ *executor.Task) error { <-ctx.Done(); return ctx.Err() },
		},
	}
	frameworktest.Run(t, cluster, func(c *frameworktest.Handle) {
		set := taskset.New(taskset.Config{})
		web := command("", "sleep infinity")
		web.Task.Ports = map[string]uint16{"http": 0, "admin": 0}
		own := web
		own.Task.Command = nil
		own.Task.Executor = &api.Executor{ID: "own", Command: api.Command{Argv: []string{"own"}}, Resources: api.Scalars(0.1, 32)}
		if err := errors.Join(set.Scale(context.Background(), "web", web, 2), set.Scale(context.Background(), "own", own, 2)); err != nil {
			t.Fatal(err)
		}
		f := c.Start(framework.Config{Name: "web", Suppressed: true}, set)
		c.AwaitRunning(4)
		f.EndTask(running(f, "web-"), frameworktest.Play{ExitCode: 1})
		f.AwaitCount(1, api.TaskFailed)
		f.AwaitCount(4, api.TaskRunning) // the task that replaces it
		if err := set.Scale(context.Background(), "web", web, 4); err != nil {
			t.Fatal(err)
		}
		f.AwaitCount(5, api.TaskRunning) // ten ports are enough for five tasks
		c.Never(time.Minute, "eleven ports to be taken", func() bool { return f.Count(api.TaskRunning) > 5 })
	})
}

// running is a task that runs.
func running(f *frameworktest.Framework, prefix string) api.TaskID {
	for id, state := range f.States() { // order: irrelevant because any will do
		if state == api.TaskRunning && strings.HasPrefix(string(id), prefix) {
			return id
		}
	}
	return ""
}
