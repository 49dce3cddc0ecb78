package manager_test

import (
	"context"
	"fmt"
	"maps"
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

// knife counts the steps by which a manager changes anything outside: each key that it writes or deletes, each launch,
// kill and acknowledgement. After one of these steps it cuts the manager off, so that nothing of it reaches anybody any
// more.
type knife struct {
	mu   sync.Mutex
	left int           // how many steps are left before the cut; 0: it does not cut
	hold func()        // cuts the manager off at once; nil: the test does that a moment later
	cut  chan struct{} // closed after the step
	what string        // names the step
}

// arm makes the knife cut after this many steps from now; 0: not at all.
func (k *knife) arm(steps int, hold func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left, k.hold, k.cut, k.what = steps, hold, make(chan struct{}), ""
}

func (k *knife) step(verb, what string, err error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.left == 0 || err != nil {
		return err
	}
	if k.left--; k.left == 0 {
		if k.what = verb + " " + what; k.hold != nil {
			k.hold()
		}
		close(k.cut)
	}
	return nil
}

// person repeats each request until an active manager has answered it.
type person struct {
	t       *testing.T
	mu      sync.Mutex
	manager *manager.Manager
	over    chan struct{}
}

func (p *person) turnTo(m *manager.Manager) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.manager = m
}

func (p *person) ask(request func(ctx context.Context, m *manager.Manager) error) {
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		p.mu.Lock()
		m := p.manager
		p.mu.Unlock()
		err := request(p.t.Context(), m)
		if err == nil {
			return
		}
		if !api.Is(err, api.Unavailable) && !api.Is(err, api.Unknown) {
			p.t.Error(err)
			return
		}
		if !pause.For(p.t.Context(), wait) {
			return
		}
	}
}

func (p *person) submit(job jobs.Job) {
	p.ask(func(ctx context.Context, m *manager.Manager) error {
		_, err := m.SubmitJob(ctx, job)
		return err
	})
}

func (p *person) update(job jobs.Job) {
	p.ask(func(ctx context.Context, m *manager.Manager) error {
		_, err := m.UpdateJob(ctx, job, 0)
		return err
	})
}

func (p *person) stop(name string) {
	p.ask(func(ctx context.Context, m *manager.Manager) error { return m.StopJob(ctx, name) })
	p.await(name, func(status jobs.Status) bool { return status.Phase == jobs.Stopped })
}

// delete repeats its request until the job is gone. A repeated request may find nothing more to delete.
func (p *person) delete(name string) {
	p.ask(func(ctx context.Context, m *manager.Manager) error {
		err := m.DeleteJob(ctx, name)
		if api.Is(err, api.NotFound) {
			return nil
		}
		return err
	})
	p.ask(func(ctx context.Context, m *manager.Manager) error {
		_, err := m.JobStatus(ctx, name)
		if api.Is(err, api.NotFound) {
			return nil
		}
		return api.E("test", api.Unavailable, name, err)
	})
}

// await asks for the job's status until it is good.
func (p *person) await(name string, good func(jobs.Status) bool) {
	p.ask(func(ctx context.Context, m *manager.Manager) error {
		status, err := m.JobStatus(ctx, name)
		if err == nil && !good(status) {
			err = api.E("test", api.Unavailable, name, nil)
		}
		return err
	})
}

func (p *person) awaitPhase(name string, phase jobs.Phase) {
	p.await(name, func(status jobs.Status) bool { return status.Phase == phase })
}

// awaitRunning waits until n tasks run and no change is under way. With first the job must have its first version,
// otherwise a later one.
func (p *person) awaitRunning(name string, first bool, n int) {
	p.await(name, func(status jobs.Status) bool {
		return status.Roll == nil && (status.Version == 1) == first && status.SubJobs[0].Running == n
	})
}

// ends counts tasks by their index and their final state: "main.0 FINISHED".
type ends map[string]int

// killedStory is what a person does with a job, and the result that it must have whenever its manager is killed.
type killedStory struct {
	play func(p *person, name string)
	want ends // how the tasks that ran must have ended
	keys int  // how many keys of the job the store must have in the end
}

func named(job jobs.Job, name string) jobs.Job {
	job.Name = name
	return job
}

// TestKilledBehindEveryStep kills a manager after each of its steps, from a job's submission to its end, for jobs of
// each type. What the manager has asked for in its last moment arrives or is lost. Sometimes the next manager is killed
// as well while it takes over. Nothing that was submitted is lost, and nothing is done twice.
func TestKilledBehindEveryStep(t *testing.T) {
	step := func(name, command string, when jobs.When, after ...string) jobs.Step {
		return jobs.Step{Name: name, After: after, When: when, Task: jobs.Task{Command: command, Attempts: 1}}
	}
	stories := map[string]killedStory{
		"batch": {
			play: func(p *person, name string) {
				p.submit(batch(name, "sleep 2", 3, 2))
				p.awaitPhase(name, jobs.Succeeded)
			},
			want: ends{"main.0 FINISHED": 1, "main.1 FINISHED": 1, "main.2 FINISHED": 1}, keys: 2,
		},
		"batch that fails": {
			play: func(p *person, name string) {
				job := batch(name, "sleep 1; exit 3", 1, 1)
				job.Task.Attempts = 2
				p.submit(job)
				p.awaitPhase(name, jobs.Failed)
			},
			want: ends{"main.0 FAILED": 2}, keys: 2,
		},
		"batch that is submitted again": {
			play: func(p *person, name string) {
				p.submit(batch(name, "sleep 2", 1, 1))
				p.awaitPhase(name, jobs.Succeeded)
				p.submit(batch(name, "sleep 2", 1, 1))
				p.await(name, func(status jobs.Status) bool { return status.Version > 1 && status.Phase == jobs.Succeeded })
			},
			want: ends{"main.0 FINISHED": 2}, keys: 3,
		},
		"batch that is deleted": {
			play: func(p *person, name string) {
				p.submit(batch(name, "sleep infinity", 3, 2))
				p.awaitRunning(name, true, 2)
				p.delete(name)
			},
			want: ends{"main.0 KILLED": 1, "main.1 KILLED": 1},
		},
		"service": {
			play: func(p *person, name string) {
				p.submit(service(name, "sleep infinity", 2))
				p.awaitRunning(name, true, 2)
				p.update(service(name, "sleep infinity; true", 2))
				p.awaitRunning(name, false, 2)
				p.stop(name)
			},
			want: ends{"main.0 KILLED": 2, "main.1 KILLED": 2}, keys: 3,
		},
		"service that goes back": {
			play: func(p *person, name string) {
				p.submit(service(name, "sleep infinity", 2))
				p.awaitRunning(name, true, 2)
				p.update(service(name, "sleep 1; exit 3", 2))
				p.await(name, func(status jobs.Status) bool { return strings.Contains(status.Why, "exit") })
				p.awaitRunning(name, true, 2)
				p.stop(name)
			},
			want: ends{"KILLED": 3, "FAILED": 1}, keys: 3,
		},
		"DAG": {
			play: func(p *person, name string) {
				p.submit(jobs.Job{Name: name, Type: jobs.DAGType, Steps: []jobs.Step{
					step("load", "sleep 2", ""), step("check", "sleep 1; exit 3", "", "load"), step("mend", "sleep 1", jobs.OnFailure, "check"),
				}})
				p.awaitPhase(name, jobs.Failed)
			},
			want: ends{"load.0 FINISHED": 1, "check.0 FAILED": 1, "mend.0 FINISHED": 1}, keys: 2,
		},
		"cron": {
			play: func(p *person, name string) {
				p.submit(jobs.Job{Name: name, Type: jobs.CronType, Task: jobs.Task{Command: "sleep 70"},
					Cron: &jobs.Cron{Schedule: "* * * * *", Completions: 2}})
				p.await(name, func(status jobs.Status) bool { return len(status.Runs) == 1 })
				p.stop(name)
			},
			want: ends{"run-1.0 FINISHED": 1, "run-1.1 FINISHED": 1}, keys: 2,
		},
		"system": {
			play: func(p *person, name string) {
				p.submit(jobs.Job{Name: name, Type: jobs.SystemType, Task: jobs.Task{Command: "sleep infinity"}})
				p.awaitRunning(name, true, 2)
				p.stop(name)
			},
			want: ends{"KILLED": 2}, keys: 2,
		},
		"gang": {
			play: func(p *person, name string) {
				p.submit(named(gang("", 3, 1), name))
				p.awaitPhase(name, jobs.Succeeded)
			},
			want: ends{"main.0 FINISHED": 1, "main.1 FINISHED": 1, "main.2 FINISHED": 1}, keys: 2,
		},
	}
	for kind, story := range stories {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, late %v", kind, late), func(t *testing.T) {
				if late && os.Getenv("TENDER_TEST_LONG") == "" {
					t.Skip("TENDER_TEST_LONG kills each behind every step in both ways; else they take turns")
				}
				machine := frameworktest.Cluster{Agents: 2, Latency: 3 * time.Millisecond, Script: playMember}
				frameworktest.Run(t, machine, func(h *frameworktest.Handle) { story.killBehindEveryStep(h, kind, late) })
			})
		}
	}
}

// killBehindEveryStep runs one job after the other, and kills the manager one step later each time. In turns it does so
// at once, or a moment later, when some of what the manager has asked for has arrived; with other it begins with the
// latter.
func (s killedStory) killBehindEveryStep(h *frameworktest.Handle, kind string, other bool) {
	c := &cluster{Handle: h, t: h.T()}
	k := c.startMortal(0, false)
	for steps := 1; ; steps++ {
		late := steps%2 == 0 != other
		k.arm(steps, c.hold(late))
		p := &person{t: h.T(), manager: c.manager, over: make(chan struct{})}
		name := fmt.Sprint("job-", steps)
		go func() { // ends with the job
			defer close(p.over)
			s.play(p, name)
		}()
		runs, what := []*frameworktest.Framework{c.run}, ""
		for again := steps % 4; k.cuts(c, p.over); again = 0 { // sometimes the next one too, as it takes over
			what += k.what + " "
			if late {
				c.Advance(2 * time.Millisecond)
			}
			c.run.Kill()
			k = c.startMortal(again, late)
			runs = append(runs, c.run)
			p.turnTo(c.manager)
		}
		c.Await(fmt.Sprintf("%s to be over, its manager killed behind %q", kind, what), func() bool { return isClosed(p.over) })
		c.AwaitQuiet()
		got := endsOf(runs, name)
		switch kind {
		case "gang": // a gang that was launched in part was killed, and began anew
			maps.DeleteFunc(got, func(what string, _ int) bool { return strings.HasSuffix(what, "KILLED") })
		case "system", "service that goes back": // an index may move to another agent, and any may be changed first
			sum := ends{}
			for what, n := range got {
				_, state, _ := strings.Cut(what, " ")
				sum[state] += n
			}
			got = sum
		}
		if !maps.Equal(got, s.want) {
			c.t.Fatalf("killed behind step %d, %q: the tasks ended %v, wanted %v", steps, what, got, s.want)
		}
		c.awaitKeys(name, s.keys)
		if what == "" {
			if c.t.Logf("%d steps", steps-1); steps < 8 {
				c.t.Errorf("a job's life has %d steps; the knife has not seen all", steps-1)
			}
			return
		}
	}
}

// cuts waits until the knife has cut, or until the person is done and so is the manager. It reports whether the knife
// has cut.
func (k *knife) cuts(c *cluster, over <-chan struct{}) bool {
	select {
	case <-k.cut:
	case <-over:
		c.Advance(time.Second) // lets arrive what is still on its way
	}
	return isClosed(k.cut)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// hold returns a function that cuts the present manager off at once; nil if that is to happen a moment later.
func (c *cluster) hold(late bool) func() {
	if late {
		return nil
	}
	return c.run.Isolate
}

// startMortal starts a manager with a knife.
func (c *cluster) startMortal(steps int, late bool) *knife {
	k, m := &knife{}, manager.New(manager.Config{Calendar: calendar.Next})
	c.manager, c.run = m, c.Start(config, between{Manager: m, did: k.step})
	k.arm(steps, c.hold(late))
	c.Await("the manager to be active", m.Active)
	return k
}

// endsOf returns how those tasks of the job ended that ran, according to what the managers were told.
func endsOf(runs []*frameworktest.Framework, name string) ends {
	states := map[api.TaskID]api.TaskState{}
	for _, run := range runs {
		for task, state := range run.States() {
			if strings.HasPrefix(string(task), name+".") && slices.Contains(ran, state) {
				states[task] = state
			}
		}
	}
	found := ends{}
	for task, state := range states {
		parts := strings.Split(string(task), ".") // NAME.RUN.SUBJOB.INDEX.ATTEMPT
		found[fmt.Sprintf("%s.%s %s", parts[2], parts[3], state)]++
	}
	return found
}

// ran has the states of tasks that were started.
var ran = []api.TaskState{api.TaskStaging, api.TaskStarting, api.TaskRunning, api.TaskKilling, api.TaskFinished, api.TaskFailed, api.TaskKilled}

// awaitKeys waits until the store has n keys of the job. Versions of requests that were not answered may come on top.
func (c *cluster) awaitKeys(name string, n int) {
	c.t.Helper()
	var keys []string
	c.Await(fmt.Sprintf("the store to have %d keys of %s", n, name), func() bool {
		entries, err := c.run.Client().Store().List(c.t.Context(), "jobs/"+name+"/")
		if err != nil {
			c.t.Fatal(err)
		}
		keys = nil
		for _, entry := range entries {
			keys = append(keys, entry.Key)
		}
		return len(keys) == n || n > 2 && len(keys) > n && len(keys) <= n+2
	})
}

// slow is a store that writes the ends of jobs late.
type slow struct{ manager.Masters }

func (s slow) Put(ctx context.Context, key string, value []byte, keepFree int) error {
	if strings.Contains(string(value), string(jobs.Succeeded)) {
		pause.For(ctx, time.Second)
	}
	return s.Masters.Put(ctx, key, value, keepFree)
}

type late struct{ *manager.Manager }

func (m late) Subscribed(ctx context.Context, client *framework.Client) error {
	return m.SubscribedTo(ctx, slow{manager.MastersOf(client)})
}

// TestSubmittedAgainAtOnce: a job is submitted again before its end is stored. Storing the end must not undo the new
// beginning, so that the next manager knows of it.
func TestSubmittedAgainAtOnce(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(h *frameworktest.Handle) {
		c := &cluster{Handle: h, t: h.T()}
		m := late{manager.New(manager.Config{})}
		c.manager, c.run = m.Manager, c.Start(config, m)
		c.Await("the manager to be active", m.Active)
		c.submit(batch("sum", "sleep 2", 1, 1))
		c.awaitPhase("sum", jobs.Succeeded)
		c.submit(batch("sum", "sleep 20", 1, 1))
		c.Advance(3 * time.Second)
		c.run.Kill()
		c.startManager()
		if status := c.status("sum"); status.Phase != jobs.Running || status.Version != 2 {
			t.Errorf("it was submitted again, and is %s, version %d", status.Phase, status.Version)
		}
		c.awaitPhase("sum", jobs.Succeeded)
	})
}
