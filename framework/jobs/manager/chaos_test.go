package manager_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/framework/jobs/manager"
	"github.com/tenderhq/tender/internal/calendar"
	"github.com/tenderhq/tender/internal/pause"
)

// TestAnEarlierManagerComesBack: the active manager is cut off, and another one keeps the jobs. When that one dies, the
// first is active again: it knows what was done meanwhile, and nothing that it had still to write undoes that.
func TestAnEarlierManagerComesBack(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 2}, func(h *frameworktest.Handle) {
		c := begin(h)
		first := c.run
		c.submit(batch("sum", "sleep 10", 40, 4))
		c.awaitRunning("sum", 4)
		standby := manager.New(manager.Config{Calendar: calendar.Next})
		second := c.Start(config, standby)
		first.Isolate()
		c.Await("the second to be active", standby.Active)
		c.Advance(45 * time.Second)
		first.Rejoin()
		c.Advance(5 * time.Second)
		if _, err := c.manager.JobStatus(t.Context(), "sum"); c.manager.Active() || !api.Is(err, api.Unavailable) {
			t.Errorf("the first stands by: active %v, and asked for a job it says %v", c.manager.Active(), err)
		}
		second.Kill()
		c.Advance(20 * time.Second)
		c.awaitPhase("sum", jobs.Succeeded)
		finished := map[api.TaskID]bool{}
		for _, f := range []*frameworktest.Framework{first, second} {
			for task, state := range f.States() {
				if state == api.TaskFinished {
					finished[task] = true
				}
			}
		}
		if len(finished) != 40 {
			t.Errorf("%d tasks did the 40 indexes", len(finished))
		}
		c.AwaitQuiet()
	})
}

// TestJobsWhateverBreaks: masters, agents, executors, links and job managers break by a seed, while people submit,
// change, stop and delete jobs of several kinds, in a store that is sometimes full. What was answered holds; each index
// of a batch is proven once; a service has its count again; whatever there is can be deleted, and nothing stays of it.
// Replay a seed with -run 'TestJobsWhateverBreaks/seed=7$'; TENDER_TEST_LONG tries more of them.
func TestJobsWhateverBreaks(t *testing.T) {
	last := uint64(6)
	if os.Getenv("TENDER_TEST_LONG") != "" {
		last = 200
	}
	for seed := uint64(1); seed <= last; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { whateverBreaks(t, seed) })
	}
}

func whateverBreaks(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 4))
	machine := frameworktest.Cluster{
		Masters: []int{1, 3}[random.IntN(2)], Agents: 2 + random.IntN(3), Latency: time.Duration(random.IntN(3)) * 5 * time.Millisecond, Seed: seed,
	}
	plan := frameworktest.NewPlan(seed, 30*time.Second+time.Duration(random.IntN(90))*time.Second)
	frameworktest.Run(t, machine, func(h *frameworktest.Handle) {
		o := &office{Handle: h, store: &small{bound: 1 << 20, sizes: make(map[string]int)}}
		if random.IntN(3) == 0 {
			o.store.bound = 20 << 10
		}
		h.Start(config, o.hire())
		if random.IntN(2) == 0 {
			h.Start(config, o.hire()) // stands by
		}
		for i := range 4 {
			o.clients.Go(func() { o.use(fmt.Sprint("client-", i), rand.New(rand.NewPCG(seed, uint64(10+i)))) })
		}
		h.Chaos(frameworktest.Chaos{Plan: plan, Again: func(killed *frameworktest.Framework) framework.Scheduler {
			o.runs = append(o.runs, killed)
			return o.hire()
		}})
		o.close()
		served := make(chan struct{})
		go func() { o.clients.Wait(); close(served) }()
		h.AwaitFor(2*time.Hour, "all clients to be served", func() bool { return isClosed(served) })
		o.audit()
	})
}

// office has the job managers of a story, of which one at most is active, and those who use them.
type office struct {
	*frameworktest.Handle
	store   *small // of all managers, one after the other
	clients sync.WaitGroup

	mu      sync.Mutex
	active  *manager.Manager           // the one that has subscribed last
	session *framework.Client          // of that one
	runs    []*frameworktest.Framework // of managers that were killed
	closed  bool
	batches map[string]int // those that have succeeded, with their indexes
	left    []string       // jobs that nobody has deleted
}

// employee is a manager of the office.
type employee struct {
	between
	office *office
}

// Subscribed has the office turn to this manager.
func (e employee) Subscribed(ctx context.Context, client *framework.Client) error {
	err := e.between.Subscribed(ctx, client)
	e.office.mu.Lock()
	defer e.office.mu.Unlock()
	e.office.active, e.office.session = e.Manager, client
	return err
}

// hire makes the next manager.
func (o *office) hire() framework.Scheduler {
	return employee{between{manager.New(manager.Config{Calendar: calendar.Next}), o.store.write, o.store.did}, o}
}

func (o *office) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
}

func (o *office) isClosed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closed
}

// ask repeats a request until an active manager has answered it, and returns the answer.
func (o *office) ask(request func(ctx context.Context, m *manager.Manager) error) error {
	for pause.For(o.T().Context(), 50*time.Millisecond) {
		o.mu.Lock()
		m := o.active
		o.mu.Unlock()
		if m == nil || !m.Active() {
			continue
		}
		ctx, cancel := context.WithTimeout(o.T().Context(), 10*time.Second)
		err := request(ctx, m)
		late := ctx.Err() != nil
		cancel()
		if !late && !api.Is(err, api.Unavailable) && !api.Is(err, api.Unknown) {
			return err
		}
	}
	return nil // the story is over
}

// use has somebody use one job after the other until the office is closed. The last one may stay.
func (o *office) use(who string, random *rand.Rand) {
	for n := 1; !o.isClosed(); n++ {
		name := fmt.Sprint(who, "-", n)
		filler := strings.Repeat("x", random.IntN(2000)) // so that a small store gets full
		var job jobs.Job
		switch random.IntN(3) {
		case 0:
			job = batch(name, fmt.Sprintf("sleep %d", random.IntN(8)), 1+random.IntN(12), 1+random.IntN(4))
		case 1:
			job = service(name, "sleep infinity", 1+random.IntN(3))
		default:
			job = jobs.Job{Name: name, Type: jobs.CronType, Task: jobs.Task{Command: "sleep 5"}, Cron: &jobs.Cron{Schedule: "* * * * *", Completions: 1 + random.IntN(3)}}
		}
		job.Task.Env = map[string]string{"FILLER": filler}
		err := o.ask(func(ctx context.Context, m *manager.Manager) error {
			_, err := m.SubmitJob(ctx, job)
			return err
		})
		switch {
		case api.Is(err, api.Limit):
			pause.For(o.T().Context(), 5*time.Second)
			continue
		case err != nil:
			o.T().Errorf("%s can't be submitted: %v", name, err)
			return
		}
		o.follow(job, random)
	}
}

// follow has somebody wait for what a job is for, or change his mind.
func (o *office) follow(job jobs.Job, random *rand.Rand) {
	moment := func() { pause.For(o.T().Context(), time.Duration(random.IntN(15_000))*time.Millisecond) }
	switch moment(); job.Type {
	case jobs.BatchType:
		if random.IntN(3) == 0 {
			break
		}
		o.await(job.Name, "to succeed", func(s jobs.Status) bool { return s.Phase == jobs.Succeeded })
		o.mu.Lock()
		if o.batches == nil {
			o.batches = make(map[string]int)
		}
		o.batches[job.Name] = job.Batch.Completions
		o.mu.Unlock()
	case jobs.ServiceType:
		if random.IntN(2) == 0 {
			count := 1 + random.IntN(3)
			job.Task.Command, job.Service = "sleep infinity; true", &jobs.Service{Count: &count}
			err := o.ask(func(ctx context.Context, m *manager.Manager) error {
				_, err := m.UpdateJob(ctx, job, 0)
				return err
			})
			if err != nil && !api.Is(err, api.Limit) {
				o.T().Errorf("%s can't be updated: %v", job.Name, err)
			}
			if err != nil {
				break
			}
			moment()
		}
		o.await(job.Name, "to have its count", func(s jobs.Status) bool {
			return s.Roll == nil && s.SubJobs[0].Running == *job.Service.Count
		})
	}
	if random.IntN(3) == 0 {
		o.mu.Lock()
		o.left = append(o.left, job.Name)
		o.mu.Unlock()
		if job.Type == jobs.ServiceType { // it would hold what others wait for
			o.stop(job.Name)
		}
		return
	}
	o.delete(job.Name)
}

// await waits until the job's status is good. A job whose submission was answered is never unknown.
func (o *office) await(name, what string, good func(jobs.Status) bool) {
	var last jobs.Status
	for range 4000 {
		err := o.ask(func(ctx context.Context, m *manager.Manager) (err error) {
			last, err = m.JobStatus(ctx, name)
			return err
		})
		switch {
		case o.T().Context().Err() != nil:
			return
		case err != nil:
			o.T().Errorf("%s was submitted, and its status is: %v", name, err)
			return
		case good(last):
			return
		}
		pause.For(o.T().Context(), time.Second)
	}
	o.T().Errorf("%s needs more than an hour %s: %+v", name, what, last)
}

func (o *office) stop(name string) {
	if err := o.ask(func(ctx context.Context, m *manager.Manager) error { return m.StopJob(ctx, name) }); err != nil && !api.Is(err, api.Limit) {
		o.T().Errorf("%s can't be stopped: %v", name, err)
	}
}

// delete deletes a job. A request that is repeated, because its answer was lost, may find nothing to delete.
func (o *office) delete(name string) {
	err := o.ask(func(ctx context.Context, m *manager.Manager) error { return m.DeleteJob(ctx, name) })
	if err != nil && !api.Is(err, api.NotFound) {
		o.T().Errorf("%s can't be deleted: %v", name, err)
	}
}

// audit deletes what is left, and checks what has been done.
func (o *office) audit() {
	for _, name := range o.left {
		o.delete(name)
	}
	o.AwaitFor(time.Hour, "nothing to be left of the jobs", func() bool {
		entries, err := o.session.Store().List(o.T().Context(), "jobs/")
		return err == nil && len(entries) == 0
	})
	o.AwaitQuiet()
	proven := o.proven()
	for name, indexes := range o.batches {
		for index := range indexes {
			tasks := proven[fmt.Sprintf("%s.main.%d", name, index)]
			if len(tasks) == 0 || len(tasks) > 1 && !slices.ContainsFunc(tasks, o.wasLost) {
				o.T().Errorf("index %d of %s was proven by %v", index, name, tasks)
			}
		}
	}
	if len(o.batches) == 0 {
		o.T().Log("no batch has succeeded")
	}
}

// proven returns the tasks of which some manager was told that they have FINISHED, by their job, sub-job and index.
func (o *office) proven() map[string][]api.TaskID {
	proven := make(map[string][]api.TaskID)
	for _, run := range append(slices.Clone(o.runs), o.Frameworks()...) {
		for task, state := range run.States() {
			parts := strings.Split(string(task), ".") // NAME.RUN.SUBJOB.INDEX.ATTEMPT
			index := strings.Join([]string{parts[0], parts[2], parts[3]}, ".")
			if state == api.TaskFinished && !slices.Contains(proven[index], task) {
				proven[index] = append(proven[index], task)
			}
		}
	}
	return proven
}

// wasLost reports whether a task was UNREACHABLE at some time, or UNKNOWN to a leader that took its agent for dead. Its
// index was tried again, and it may have come back.
func (o *office) wasLost(task api.TaskID) bool {
	return slices.ContainsFunc(append(slices.Clone(o.runs), o.Frameworks()...), func(run *frameworktest.Framework) bool {
		return slices.ContainsFunc(run.Statuses(task), func(s api.Status) bool {
			return s.State == api.TaskUnreachable || s.State == api.TaskUnknown
		})
	})
}
