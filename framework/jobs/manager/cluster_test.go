package manager_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/framework/jobs/manager"
	"github.com/tenderhq/tender/internal/calendar"
)

var config = framework.Config{Name: "jobs", Standby: true, FailoverTimeout: time.Hour, Revocable: true}

// cluster is the cluster of a story, with a job manager.
type cluster struct {
	*frameworktest.Handle
	t       *testing.T
	manager *manager.Manager
	run     *frameworktest.Framework
}

func begin(c *frameworktest.Handle) *cluster {
	s := &cluster{Handle: c, t: c.T()}
	s.startManager()
	return s
}

// startManager starts a manager, and waits until it is active.
func (c *cluster) startManager() {
	m := manager.New(manager.Config{Calendar: calendar.Next})
	c.run = c.Start(config, m)
	c.Await("the manager to be active", m.Active)
	c.manager = m
}

func (c *cluster) submit(job jobs.Job) {
	c.t.Helper()
	if _, err := c.manager.SubmitJob(c.t.Context(), job); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) status(name string) jobs.Status {
	status, err := c.manager.JobStatus(c.t.Context(), name)
	if err != nil && !api.Is(err, api.Unavailable) && !api.Is(err, api.NotFound) {
		c.t.Fatal(err)
	}
	return status
}

func (c *cluster) awaitPhase(name string, phase jobs.Phase) jobs.Status {
	c.t.Helper()
	c.AwaitFor(time.Hour, fmt.Sprintf("%s to be %s", name, phase), func() bool { return c.status(name).Phase == phase })
	return c.status(name)
}

func (c *cluster) awaitRunning(name string, n int) {
	c.t.Helper()
	c.AwaitFor(time.Hour, fmt.Sprintf("%d tasks of %s to run", n, name), func() bool {
		status := c.status(name)
		return len(status.SubJobs) > 0 && status.SubJobs[0].Running == n
	})
}

func batch(name, command string, completions, parallelism int) jobs.Job {
	return jobs.Job{Name: name, Type: jobs.BatchType, Task: jobs.Task{Command: command, CPUs: 0.5, Mem: 64},
		Batch: &jobs.Batch{Completions: completions, Parallelism: parallelism}}
}

func service(name, command string, count int) jobs.Job {
	return jobs.Job{Name: name, Type: jobs.ServiceType, Task: jobs.Task{Command: command, CPUs: 0.5, Mem: 64}, Service: &jobs.Service{Count: &count}}
}

func TestBatchRunsEachIndexOnce(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 2}, func(h *frameworktest.Handle) {
		c := begin(h)
		c.submit(batch("sum", "sleep 10", 270, 40))
		status := c.awaitPhase("sum", jobs.Succeeded)
		if one := status.SubJobs[0]; one.Done != 270 || one.Failed != 0 {
			t.Errorf("%+v", one)
		}
		c.run.ExpectCount(270, api.TaskFinished)
		c.AwaitQuiet()
	})
}

func TestServiceIsKeptRunning(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 2}, func(h *frameworktest.Handle) {
		c := begin(h)
		c.submit(service("web", "sleep infinity", 4))
		c.awaitRunning("web", 4)
		c.Agent(1).Reboot()
		c.Agent(1).Start()
		c.awaitRunning("web", 4)
		next := service("web", "sleep infinity; true", 6)
		if _, err := c.manager.UpdateJob(c.t.Context(), next, 0); err != nil {
			t.Fatal(err)
		}
		c.AwaitFor(time.Hour, "the change to be done", func() bool { return c.status("web").Roll == nil })
		c.awaitRunning("web", 6)
		for _, task := range c.status("web").Tasks {
			if task.Version != 2 {
				t.Errorf("%s runs version %d", task.Task, task.Version)
			}
		}
		if err := c.manager.StopJob(c.t.Context(), "web"); err != nil {
			t.Fatal(err)
		}
		c.awaitPhase("web", jobs.Stopped)
		c.AwaitQuiet()
	})
}

// TestManagerIsKilled: the next manager continues, and starts nothing twice.
func TestManagerIsKilled(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 2}, func(h *frameworktest.Handle) {
		c := begin(h)
		c.submit(service("web", "sleep infinity", 3))
		c.submit(batch("sum", "sleep 10", 60, 8))
		c.awaitRunning("web", 3)
		first := c.run
		standby := manager.New(manager.Config{})
		next := c.Start(config, standby)
		first.Kill()
		c.Await("the next to be active", standby.Active)
		c.manager, c.run = standby, next
		c.awaitPhase("sum", jobs.Succeeded)
		c.awaitRunning("web", 3)
		finished := map[api.TaskID]bool{}
		for _, f := range []*frameworktest.Framework{first, next} {
			for task, state := range f.States() {
				if state == api.TaskFinished {
					finished[task] = true
				}
			}
		}
		if len(finished) != 60 {
			t.Errorf("%d tasks did the 60 indexes", len(finished))
		}
	})
}

// TestManagerIsKilledAgainAndAgain: the manager is killed at any step between the assignment of a task and its end.
// What was answered holds, and each index is done once.
func TestManagerIsKilledAgainAndAgain(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Masters: 3, Agents: 2, Latency: 3 * time.Millisecond}, func(h *frameworktest.Handle) {
		c := begin(h)
		c.submit(batch("sum", "sleep 2", 30, 6))
		var runs []*frameworktest.Framework
		for i := range 12 {
			runs = append(runs, c.run)
			c.Advance(time.Duration(i*i) * 20 * time.Millisecond)
			if i%4 == 3 {
				c.Leader().Kill()
			}
			c.run.Kill()
			c.Mend()
			c.startManager()
			if phase := c.status("sum").Phase; phase != jobs.Running && phase != jobs.Succeeded {
				t.Fatalf("after %d kills it is %q", i+1, phase)
			}
		}
		status := c.awaitPhase("sum", jobs.Succeeded)
		if status.SubJobs[0].Done != 30 {
			t.Errorf("%+v", status.SubJobs)
		}
		finished := map[api.TaskID]bool{}
		for _, f := range append(runs, c.run) {
			for task, state := range f.States() {
				if state == api.TaskFinished {
					finished[task] = true
				}
			}
		}
		if len(finished) != 30 {
			t.Errorf("%d tasks did the 30 indexes", len(finished))
		}
		c.AwaitQuiet()
	})
}

// TestStepsFollowEachOther: a DAG continues when its manager has been killed.
func TestStepsFollowEachOther(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(h *frameworktest.Handle) {
		c := begin(h)
		step := func(name, command string, when jobs.When, after ...string) jobs.Step {
			return jobs.Step{Name: name, After: after, When: when, Task: jobs.Task{Command: command, Attempts: 1}}
		}
		c.submit(jobs.Job{Name: "etl", Type: jobs.DAGType, Steps: []jobs.Step{
			step("load", "sleep 5", "", "fetch"), step("fetch", "sleep 5", ""), step("check", "false", "", "load"),
			step("publish", "true", "", "check"), step("tell", "true", jobs.OnFailure, "check"),
		}})
		c.Advance(7 * time.Second)
		c.run.Kill()
		c.startManager()
		states := map[string]string{}
		for _, one := range c.awaitPhase("etl", jobs.Failed).SubJobs {
			states[one.Name] = one.State
		}
		if want := map[string]string{"fetch": "success", "load": "success", "check": "failure", "publish": "skipped", "tell": "success"}; !maps.Equal(states, want) {
			t.Errorf("the steps ended %v", states)
		}
		if _, err := c.manager.UpdateJob(c.t.Context(), jobs.Job{Name: "etl", Type: jobs.DAGType, Steps: []jobs.Step{step("one", "true", "")}}, 0); err == nil {
			t.Error("a job that has ended was updated")
		}
	})
}

// TestRunsBeginWhenTheyAreDue: runs begin by the job's time zone, also after a time without a manager. Of the runs that
// have ended only a number is kept.
func TestRunsBeginWhenTheyAreDue(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Heartbeat: 10 * time.Second}, func(h *frameworktest.Handle) {
		c := begin(h)
		night := jobs.Job{Name: "night", Type: jobs.CronType, Task: jobs.Task{Command: "sleep 60"},
			Cron: &jobs.Cron{Schedule: "0,10 10,12 * * *", Zone: "Asia/Tokyo", Completions: 2, Keep: 2}} // 01:00, 01:10, 03:00, 03:10 UTC
		wrong := night
		wrong.Cron = &jobs.Cron{Schedule: "0 2 * *", Zone: "Asia/Tokyo"}
		if _, err := c.manager.SubmitJob(c.t.Context(), wrong); !api.Is(err, api.Invalid) {
			t.Errorf("a schedule of four fields: %v", err)
		}
		c.submit(night)
		day := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
		if next := c.status("night").Next; !next.Equal(day.Add(time.Hour)) {
			t.Errorf("the first run is due at %v", next.UTC())
		}
		c.Advance(2 * time.Hour)
		runs := c.status("night").Runs
		if len(runs) != 2 || !runs[1].Due.Equal(day.Add(70*time.Minute)) || runs[1].State != "success" || runs[1].Done != 2 || runs[1].Ended.Sub(runs[1].Began) < time.Minute {
			t.Fatalf("after two hours: %+v", runs)
		}
		c.Advance(50 * time.Minute)
		c.run.Kill()
		c.Advance(45 * time.Minute)
		c.startManager()
		c.Advance(5 * time.Minute)
		status := c.status("night") // of the runs that were missed only the latest is made
		if runs := status.Runs; len(runs) != 2 || runs[1].Number != 3 || !runs[1].Due.Equal(day.Add(190*time.Minute)) {
			t.Errorf("after four hours: %+v", runs)
		}
		if next := status.Next; !next.Equal(day.Add(25 * time.Hour)) {
			t.Errorf("the next run is due at %v", next.UTC())
		}
		c.run.ExpectCount(2, api.TaskFinished)
		if err := c.manager.StopJob(c.t.Context(), "night"); err != nil {
			t.Fatal(err)
		}
		c.awaitPhase("night", jobs.Stopped)
		c.awaitStore(2)
	})
}

// TestSystemJobIsOnEachAgent: the job runs on each agent that matches, also on one that comes later, and again on one
// that was rebooted. It does not run on one that has left. A new version reaches all agents.
func TestSystemJobIsOnEachAgent(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 2}, func(h *frameworktest.Handle) {
		c := begin(h)
		logs := jobs.Job{Name: "logs", Type: jobs.SystemType, Task: jobs.Task{Command: "sleep infinity"}}
		c.submit(logs)
		c.submit(service("web", "sleep infinity", 2))
		c.awaitEach("logs", c.Agent(1), c.Agent(2))
		third := c.AddAgent(frameworktest.Machine{})
		c.awaitEach("logs", c.Agent(1), c.Agent(2), third)
		c.Agent(1).Reboot()
		c.Agent(1).Start()
		c.awaitEach("logs", c.Agent(1), c.Agent(2), third)
		third.Drain(time.Second)
		third.AwaitDrained()
		c.awaitEach("logs", c.Agent(1), c.Agent(2))
		third.Reactivate()
		c.awaitEach("logs", c.Agent(1), c.Agent(2), third)
		third.Lose()
		third.MarkGone()
		c.awaitEach("logs", c.Agent(1), c.Agent(2))
		c.run.Kill()
		c.startManager()
		c.awaitEach("logs", c.Agent(1), c.Agent(2))
		logs.Task.Command = "sleep infinity; true"
		if _, err := c.manager.UpdateJob(c.t.Context(), logs, 0); err != nil {
			t.Fatal(err)
		}
		c.AwaitFor(time.Hour, "the change to be done", func() bool { return c.status("logs").Roll == nil })
		c.awaitEach("logs", c.Agent(1), c.Agent(2))
		for _, task := range c.status("logs").Tasks {
			if task.Version != 2 {
				t.Errorf("%s runs version %d", task.Task, task.Version)
			}
		}
		c.awaitRunning("web", 2)
	})
}

// awaitEach waits until the job has a task that runs on each of these agents, and on no other.
func (c *cluster) awaitEach(name string, agents ...*frameworktest.Agent) {
	c.t.Helper()
	want := map[api.AgentID]int{}
	for _, one := range agents {
		want[one.ID()] = 1
	}
	c.AwaitFor(time.Hour, fmt.Sprintf("%s to run on each of %d agents", name, len(agents)), func() bool {
		has := map[api.AgentID]int{}
		for _, task := range c.status(name).Tasks {
			has[task.Agent]++
		}
		status := c.status(name)
		return maps.Equal(has, want) && status.SubJobs[0].Running == len(want)
	})
}

func gang(name string, members int, cpus float64) jobs.Job {
	return jobs.Job{Name: name, Type: jobs.GangType, Task: jobs.Task{Command: "sleep 60", CPUs: cpus, Mem: 64},
		Gang: &jobs.Gang{Members: members}}
}

// playMember plays a member of a gang, without the line of its command that writes the list of members.
func playMember(task api.Task) frameworktest.Play {
	if command := task.Command; command != nil {
		_, shell, is := strings.Cut(command.Shell, "\n")
		if is {
			task.Command = &api.Command{Shell: shell}
		}
	}
	return frameworktest.PlayCommand(task)
}

// awaitWhole waits until the gangs are done. It fails if it ever finds only a part of a gang's members.
func (c *cluster) awaitWhole(members int, names ...string) {
	c.t.Helper()
	c.AwaitFor(time.Hour, fmt.Sprintf("%v to be done", names), func() bool {
		done := 0
		for _, name := range names {
			status := c.status(name)
			if len(status.SubJobs) == 0 {
				return false
			}
			if one := status.SubJobs[0]; status.Phase == jobs.Running && one.Busy+one.Done != 0 && one.Busy+one.Done != members {
				c.t.Fatalf("%s has %d of its %d members", name, one.Busy+one.Done, members)
			}
			if status.Phase == jobs.Succeeded {
				done++
			}
		}
		return done == len(names)
	})
}

// TestGangsTakeTurns: there is room for one of three gangs at a time, and at first small tasks are in the way.
func TestGangsTakeTurns(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 3, Script: playMember}, func(h *frameworktest.Handle) {
		c := begin(h)
		c.submit(batch("small", "sleep 20", 48, 48)) // twice what there is room for
		c.Await("small ones to run", func() bool { return c.status("small").SubJobs[0].Running > 10 })
		c.submit(gang("one", 6, 1.5))
		c.submit(gang("two", 6, 1.5))
		c.submit(gang("three", 6, 1.5))
		c.awaitWhole(6, "one", "two", "three")
		c.awaitPhase("small", jobs.Succeeded)
		c.run.ExpectCount(18+48, api.TaskFinished)
		c.AwaitQuiet()
	})
}

// TestGangsOfTwoManagers: two managers that know nothing of each other have a gang each.
func TestGangsOfTwoManagers(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 3, Script: playMember}, func(h *frameworktest.Handle) {
		c := begin(h)
		other := &cluster{Handle: h, t: h.T(), manager: manager.New(manager.Config{})}
		other.run = h.Start(framework.Config{Name: "others", Standby: true, FailoverTimeout: time.Hour}, other.manager)
		h.Await("the other manager to be active", other.manager.Active)
		c.submit(gang("one", 6, 1.5))
		other.submit(gang("two", 6, 1.5))
		c.awaitWhole(6, "one")
		other.awaitWhole(6, "two")
		c.run.ExpectCount(6, api.TaskFinished)
		other.run.ExpectCount(6, api.TaskFinished)
	})
}

// TestGangBeginsAnew: a gang begins anew when a member is lost, also if its manager is killed meanwhile.
func TestGangBeginsAnew(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 3, Script: playMember}, func(h *frameworktest.Handle) {
		c := begin(h)
		c.submit(gang("sim", 6, 1))
		c.awaitRunning("sim", 6)
		if err := c.manager.DeleteJob(c.t.Context(), "nobody"); !api.Is(err, api.NotFound) {
			t.Error(err)
		}
		more := gang("sim", 7, 1)
		if _, err := c.manager.UpdateJob(c.t.Context(), more, 0); !api.Is(err, api.Invalid) {
			t.Errorf("a gang that runs was given another member: %v", err)
		}
		c.Agent(1).Reboot()
		c.run.Kill()
		c.Agent(1).Start()
		c.startManager()
		c.awaitWhole(6, "sim")
		c.AwaitQuiet()
	})
}

// TestAgentIsLost: the tasks of a lost agent are started elsewhere, at once or after a grace. When the agent comes
// back, only one task of each index stays.
func TestAgentIsLost(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 2}, func(h *frameworktest.Handle) {
		c := begin(h)
		patient := service("patient", "sleep infinity", 1)
		patient.Task.LostAfter = jobs.Duration(-1)
		c.submit(service("web", "sleep infinity", 2))
		c.submit(patient)
		c.awaitRunning("web", 2)
		c.awaitRunning("patient", 1)
		where := c.status("patient").Tasks[0]
		lost := c.Agent(1)
		if c.Agent(2).ID() == where.Agent {
			lost = c.Agent(2)
		}
		lost.Isolate()
		c.Advance(5 * time.Minute)
		c.awaitRunning("web", 2)
		if got := c.status("patient").Tasks; len(got) != 1 || got[0].Task != where.Task || got[0].State != api.TaskUnreachable {
			t.Errorf("the patient one has %+v", got)
		}
		lost.Rejoin()
		c.awaitRunning("patient", 1)
		c.AwaitFor(time.Hour, "the older copies to end", func() bool { return len(c.status("web").Tasks) == 2 })
		c.AwaitRunning(3)
		c.Never(time.Minute, "there are more or fewer", func() bool { return c.run.Count(api.TaskRunning) != 3 })
	})
}

// TestBadChangeGoesBack: the tasks of the next version fail, so those of the version before keep running.
func TestBadChangeGoesBack(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 2}, func(h *frameworktest.Handle) {
		c := begin(h)
		c.submit(service("web", "sleep infinity", 3))
		c.awaitRunning("web", 3)
		if _, err := c.manager.UpdateJob(c.t.Context(), service("web", "sleep 1; exit 3", 3), 0); err != nil {
			t.Fatal(err)
		}
		c.AwaitFor(time.Hour, "it to have gone back", func() bool { return c.status("web").Roll == nil })
		c.awaitRunning("web", 3)
		if status := c.status("web"); status.Version != 1 {
			t.Errorf("it is of version %d: %s", status.Version, status.Why)
		}
		c.run.ExpectCount(1, api.TaskFailed)
		versions, err := c.manager.JobHistory(c.t.Context(), "web")
		if err != nil || len(versions) != 2 {
			t.Errorf("%d versions, %v", len(versions), err)
		}
		if version, err := c.manager.RollbackJob(c.t.Context(), "web", 2, 0); err != nil || version.Number != 2 {
			t.Errorf("version %d, %v", version.Number, err)
		}
		if err := c.manager.DeleteJob(c.t.Context(), "web"); err != nil {
			t.Fatal(err)
		}
		c.AwaitQuiet()
		c.Await("it to be forgotten", func() bool {
			_, err := c.manager.JobStatus(c.t.Context(), "web")
			return api.Is(err, api.NotFound)
		})
		c.awaitStore(0)
	})
}

// awaitStore waits until the store has this many keys.
func (c *cluster) awaitStore(n int) {
	c.t.Helper()
	entries, err := c.run.Client().Store().List(c.t.Context(), "")
	if err != nil || len(entries) != n {
		c.t.Errorf("the store has %d keys, wanted %d: %v", len(entries), n, err)
	}
}

// TestStoreStaysSmall: of a job that has ended only its history stays in the store, and that is bounded.
func TestStoreStaysSmall(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 2}, func(h *frameworktest.Handle) {
		c := &cluster{Handle: h, t: h.T()}
		c.manager = manager.New(manager.Config{HistoryMost: 2, HistoryAge: time.Minute, JobsMax: 3})
		c.run = c.Start(config, c.manager)
		c.Await("the manager to be active", c.manager.Active)
		for i := range 5 {
			name := fmt.Sprint("job-", i)
			c.submit(batch(name, "true", 1+260*(i%4/3), 300))
			c.awaitPhase(name, jobs.Succeeded)
		}
		c.Await("the oldest to be forgotten", func() bool {
			list, _, err := c.manager.ListJobs(c.t.Context(), manager.ListQuery{})
			return err == nil && len(list) == 2
		})
		list, more, err := c.manager.ListJobs(c.t.Context(), manager.ListQuery{Prefix: "job-", After: "job-3", Limit: 1})
		if err != nil || more || len(list) != 1 || list[0].Name != "job-4" {
			t.Errorf("behind job-3 there are %+v, %v, %v", list, more, err)
		}
		if list, more, err := c.manager.ListJobs(c.t.Context(), manager.ListQuery{Limit: 1}); err != nil || !more || len(list) != 1 {
			t.Errorf("the first is %+v, %v, %v", list, more, err)
		}
		if list, _, err := c.manager.ListJobs(c.t.Context(), manager.ListQuery{Going: true}); err != nil || len(list) != 0 {
			t.Errorf("%+v go on, %v", list, err)
		}
		c.awaitStore(4) // the header and one version of each job
		c.submit(service("web", "sleep infinity", 1))
		if _, err := c.manager.SubmitJob(c.t.Context(), batch("more", "true", 1, 1)); !api.Is(err, api.Limit) {
			t.Errorf("one job too many: %v", err)
		}
		c.Advance(2 * time.Minute)
		c.submit(batch("more", "true", 1, 1))
		c.awaitPhase("more", jobs.Succeeded)
	})
}

// TestRequestsThatCantBe: a wrong request is refused, and the error says what is wrong.
func TestRequestsThatCantBe(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(h *frameworktest.Handle) {
		idle := manager.New(manager.Config{})
		if _, err := idle.SubmitJob(h.T().Context(), service("web", "true", 1)); !api.Is(err, api.Unavailable) {
			t.Errorf("before its turn: %v", err)
		}
		c := begin(h)
		c.submit(service("web", "sleep infinity", 1))
		c.submit(service("web", "sleep infinity", 1)) // the same job again
		ctx := c.t.Context()
		_, differs := c.manager.SubmitJob(ctx, service("web", "true", 1))
		_, unknown := c.manager.UpdateJob(ctx, service("nobody", "true", 1), 0)
		_, otherType := c.manager.UpdateJob(ctx, batch("web", "true", 1, 1), 0)
		_, invalid := c.manager.SubmitJob(ctx, service("a b", "true", 1))
		_, noVersion := c.manager.RollbackJob(ctx, "web", 7, 0)
		for kind, err := range map[api.Kind][]error{
			api.Exists: {differs}, api.NotFound: {unknown, c.manager.StopJob(ctx, "nobody")}, api.Invalid: {otherType, invalid, noVersion},
		} {
			for _, one := range err {
				if !api.Is(one, kind) {
					t.Errorf("%v is not %v", one, kind)
				}
			}
		}
	})
}

// TestStragglerGetsACopy: a batch with one task on a slow machine is done when the copy of that task elsewhere is done,
// also if the manager is killed meanwhile. The slow task is killed, and does not count.
func TestStragglerGetsACopy(t *testing.T) {
	play := func(task api.Task) frameworktest.Play {
		if env := task.Command.Env; env["TENDER_JOB_INDEX"] == "5" && env["TENDER_JOB_ATTEMPT"] == "1" {
			return frameworktest.Play{Forever: true}
		}
		return frameworktest.PlayCommand(task)
	}
	frameworktest.Run(t, frameworktest.Cluster{Agents: 2, Script: play}, func(h *frameworktest.Handle) {
		c := begin(h)
		job := batch("sum", "sleep 100", 6, 6)
		job.Batch.Speculate = 2
		c.submit(job)
		copied := func() bool {
			return slices.ContainsFunc(c.status("sum").Tasks, func(task jobs.Assignment) bool { return task.Copy && task.State == api.TaskRunning })
		}
		c.AwaitFor(time.Hour, "the slow task to have a copy", copied)
		tasks := c.status("sum").Tasks
		if len(tasks) != 2 || tasks[0].Agent == tasks[1].Agent {
			t.Errorf("the slow task and its copy: %+v", tasks)
		}
		first := c.run
		c.run.Kill()
		c.startManager()
		c.Await("the next manager to know of the copy", copied)
		status := c.awaitPhase("sum", jobs.Succeeded)
		if one := status.SubJobs[0]; one.Done != 6 || one.Failed != 0 {
			t.Errorf("%+v", one)
		}
		c.AwaitQuiet()
		if got := endsOf([]*frameworktest.Framework{first, c.run}, "sum"); got["main.5 FINISHED"] != 1 || got["main.5 KILLED"] != 1 {
			t.Errorf("the tasks ended %v", got)
		}
	})
}
