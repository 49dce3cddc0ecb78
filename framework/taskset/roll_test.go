package taskset_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/taskset"
)

// version makes a service's item that runs the command line, with this name as its version.
func version(name, line string) taskset.Item {
	item := command("", line)
	item.Task.Labels = map[string]string{taskset.VersionLabel: name}
	return item
}

// runningOf counts the running tasks of the version ("" = any).
func runningOf(set *taskset.Set, version string) (n int) {
	for _, task := range set.Tasks() {
		if task.Status.State == api.TaskRunning && (version == "" || task.Status.Labels[taskset.VersionLabel] == version) {
			n++
		}
	}
	return n
}

// rolled collects what a set reports about its changes, from any goroutine.
type rolled struct {
	mu  sync.Mutex
	all []taskset.Progress
}

func (r *rolled) add(p taskset.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, p)
}

func (r *rolled) told() []taskset.Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// done reports whether the n-th change that was reported as ended is done.
func (r *rolled) done(n int) bool {
	told := r.told()
	return len(told) >= n && told[n-1].Done
}

func mustScale(t *testing.T, set *taskset.Set, item taskset.Item, n int) {
	t.Helper()
	if err := set.Scale(context.Background(), "web", item, n); err != nil {
		t.Fatal(err)
	}
}

func mustRoll(t *testing.T, set *taskset.Set, item taskset.Item, how taskset.Rolling) {
	t.Helper()
	if err := set.Roll(context.Background(), "web", item, how); err != nil {
		t.Fatal(err)
	}
}

func progressOf(t *testing.T, set *taskset.Set) taskset.Progress {
	t.Helper()
	services := set.Services()
	if len(services) != 1 || services[0].Rolling == nil {
		t.Fatalf("no change of one service: %+v", services)
	}
	return *services[0].Rolling
}

// TestRoll: a service changes two items at a time. The next two follow when the last ones have run for as long as they
// must. With Beside, the new tasks run beside the old ones until then.
func TestRoll(t *testing.T) {
	for _, beside := range []bool{false, true} {
		t.Run(fmt.Sprint("beside ", beside), func(t *testing.T) {
			frameworktest.Run(t, frameworktest.Cluster{Agents: 3}, func(c *frameworktest.Handle) {
				var changes rolled
				set := taskset.New(taskset.Config{Rolled: changes.add})
				mustScale(t, set, version("v1", "sleep infinity"), 6)
				f := c.Start(framework.Config{Name: "web"}, set)
				c.AwaitRunning(6)
				began := c.Now()
				mustRoll(t, set, version("v2", "sleep infinity"), taskset.Rolling{AtOnce: 2, Proof: 30 * time.Second, Beside: beside})
				least := 4
				if beside {
					least = 6
				}
				c.Await("all to run v2", func() bool {
					if n := runningOf(set, ""); n < least {
						t.Errorf("%d run", n)
					}
					if p := progressOf(t, set); p.Trying > 2 {
						t.Errorf("%d are in change", p.Trying)
					}
					return changes.done(1)
				})
				if took := c.Now() - began; took < 90*time.Second || took > 2*time.Minute {
					t.Errorf("three times two items that must run for 30 s took %v", took)
				}
				c.AwaitRunning(6)
				want := taskset.Progress{Service: "web", Version: "v2", Items: 6, New: 6, Done: true}
				if told := changes.told(); len(told) != 1 || told[0] != want || progressOf(t, set) != want {
					t.Errorf("told %+v", told)
				}
				if n := set.Numbers(); n.Attempts != 12 || n.Failed+n.Lost > 0 {
					t.Errorf("numbers %+v", n)
				}
				f.AwaitCount(6, api.TaskKilled)
			})
		})
	}
}

// TestRollStops: when a new task does not run for as long as it must, the change stops, and its item gets the old
// version back.
func TestRollStops(t *testing.T) {
	for _, beside := range []bool{false, true} {
		t.Run(fmt.Sprint("beside ", beside), func(t *testing.T) {
			frameworktest.Run(t, frameworktest.Cluster{Agents: 3}, func(c *frameworktest.Handle) {
				var changes rolled
				set := taskset.New(taskset.Config{Rolled: changes.add})
				mustScale(t, set, version("v1", "sleep infinity"), 3)
				c.Start(framework.Config{Name: "web"}, set)
				c.AwaitRunning(3)
				mustRoll(t, set, version("v2", "sleep 5; exit 3"), taskset.Rolling{Beside: beside})
				c.Await("the change to stop", func() bool { return len(changes.told()) > 0 })
				p := changes.told()[0]
				if !p.Stopped || p.Done || p.New != 0 || p.Why != "web-0: FAILED exited with 3" {
					t.Errorf("told %+v", p)
				}
				c.AwaitFor(10*time.Second, "three to run v1 again", func() bool { return runningOf(set, "v1") == 3 })
				c.Never(10*time.Minute, "another one to change", func() bool { return set.Numbers().Running != 3 || runningOf(set, "v1") != 3 })
				mustRoll(t, set, version("v3", "sleep infinity"), taskset.Rolling{AtOnce: 3, Beside: beside})
				c.Await("the next change to be done", func() bool { return changes.done(2) })
				if n := runningOf(set, "v3"); n != 3 {
					t.Errorf("%d run v3", n)
				}
			})
		})
	}
}

// TestRollIsReplaced: a change back begins before the first change is done. It ends the tasks of the new version, and
// touches no others.
func TestRollIsReplaced(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 3}, func(c *frameworktest.Handle) {
		var changes rolled
		set := taskset.New(taskset.Config{Rolled: changes.add})
		mustScale(t, set, version("v1", "sleep infinity"), 4)
		c.Start(framework.Config{Name: "web"}, set)
		c.AwaitRunning(4)
		mustRoll(t, set, version("v2", "sleep infinity"), taskset.Rolling{Proof: time.Minute})
		c.Await("one to run v2", func() bool { return runningOf(set, "v2") == 1 })
		mustRoll(t, set, version("v1", "sleep infinity"), taskset.Rolling{})
		c.Await("the change back to be done", func() bool { return changes.done(1) && changes.told()[0].Version == "v1" })
		if n := set.Numbers(); runningOf(set, "v1") != 4 || n.Attempts != 6 {
			t.Errorf("numbers %+v", n)
		}
		mustScale(t, set, version("v1", "sleep infinity"), 2)
		c.AwaitRunning(2)
		mustRoll(t, set, version("v2", "sleep infinity"), taskset.Rolling{Proof: time.Minute})
		mustScale(t, set, version("v2", "sleep infinity"), 1) // the item in change may be the one that is removed
		c.Await("the change of what is left", func() bool { return changes.done(2) && runningOf(set, "v2") == 1 })
	})
}

// TestRollGoesOn: the leader, agents and schedulers are lost during a change. A successor that asks for the same change
// completes it. Tasks that run the new version already are not started again.
func TestRollGoesOn(t *testing.T) {
	cluster := frameworktest.Cluster{Masters: 3, Agents: 4, TombstoneAfter: 10 * time.Second}
	frameworktest.Run(t, cluster, func(c *frameworktest.Handle) {
		var changes rolled
		how := taskset.Rolling{Proof: 20 * time.Second}
		start := func(first taskset.Item) *taskset.Set {
			set := taskset.New(taskset.Config{Rolled: changes.add})
			mustScale(t, set, first, 6)
			return set
		}
		set := start(version("v1", "sleep infinity"))
		f := c.Start(framework.Config{Name: "web"}, set)
		c.AwaitRunning(6)
		mustRoll(t, set, version("v2", "sleep infinity"), how)
		c.Await("two to be new", func() bool { return progressOf(t, set).New == 2 })
		c.Leader().Kill()
		c.Await("three to be new", func() bool { return progressOf(t, set).New == 3 })
		known := newTasks(set)
		f.Kill()
		set = start(version("v2", "sleep infinity")) // the next program knows nothing of v1
		mustRoll(t, set, version("v2", "sleep infinity"), how)
		f = f.Again(set)
		c.Await("four to be new", func() bool { return progressOf(t, set).New >= 4 })
		for _, id := range known {
			if !slices.Contains(newTasks(set), id) {
				t.Errorf("%s was new before the takeover and does not run any more", id)
			}
		}
		known = newTasks(set)
		f.Kill()
		set = start(version("v1", "sleep infinity")) // this one begins like the first program
		mustRoll(t, set, version("v2", "sleep infinity"), how)
		f.Again(set)
		c.Await("five to be new", func() bool { return progressOf(t, set).New >= 5 })
		for _, id := range known {
			if !slices.Contains(newTasks(set), id) {
				t.Errorf("%s was new before the second takeover and does not run any more", id)
			}
		}
		c.Agent(1).Reboot()
		c.Agent(1).Start()
		c.Await("the change to be done", func() bool { return changes.done(1) })
		c.Await("six to run v2", func() bool { return runningOf(set, "v2") == 6 && set.Numbers().Running == 6 })
	})
}

// newTasks lists the tasks that run v2.
func newTasks(set *taskset.Set) (ids []string) {
	for _, task := range set.Tasks() {
		if task.Status.State == api.TaskRunning && task.Status.Labels[taskset.VersionLabel] == "v2" {
			ids = append(ids, string(task.Status.Task))
		}
	}
	return ids
}

// TestRollWaitsForTheOthers: while another item of the service is down, the change takes down no further one.
func TestRollWaitsForTheOthers(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 3}, func(c *frameworktest.Handle) {
		set := taskset.New(taskset.Config{Apart: api.ByAgent})
		mustScale(t, set, version("v1", "sleep infinity"), 3)
		c.Start(framework.Config{Name: "web"}, set)
		c.AwaitRunning(3)
		c.Agent(1).Isolate()
		c.Await("one to be down", func() bool { return runningOf(set, "") == 2 })
		mustRoll(t, set, version("v2", "sleep infinity"), taskset.Rolling{})
		c.Never(5*time.Minute, "another one to be down", func() bool { return runningOf(set, "") < 2 })
		c.Agent(1).Rejoin()
		c.Await("the change to be done", func() bool { return progressOf(t, set).Done })
		c.Await("three to run v2", func() bool { return runningOf(set, "v2") == 3 })
	})
}

func TestRollIsRefused(t *testing.T) {
	set := taskset.New(taskset.Config{})
	if err := set.Roll(context.Background(), "web", version("v2", "true"), taskset.Rolling{}); !api.Is(err, api.NotFound) || !strings.Contains(err.Error(), "Scale keeps one") {
		t.Errorf("a service that is not kept: %v", err)
	}
	mustScale(t, set, version("v1", "true"), 1)
	bad := version("v2", "true")
	bad.Task.Command = nil
	if err := set.Roll(context.Background(), "web", bad, taskset.Rolling{}); !api.Is(err, api.Invalid) {
		t.Errorf("what can never run: %v", err)
	}
	other := version("v2", "true")
	other.Group = "shop"
	if err := set.Roll(context.Background(), "web", other, taskset.Rolling{}); !api.Is(err, api.Invalid) || !strings.Contains(err.Error(), `group is "web"`) {
		t.Errorf("another group: %v", err)
	}
}
