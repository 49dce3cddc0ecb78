package taskset_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/taskset"
)

// readied makes a version of a service that has a check for readiness, made every second.
func readied(name string) taskset.Item {
	item := version(name, "sleep infinity")
	item.Task.Checks = []api.Check{{Readiness: true, Command: &api.Command{Shell: "true"}, Interval: time.Second}}
	return item
}

// readyAfter plays tasks that become ready this long after their start, by version.
func readyAfter(spans map[string]time.Duration) func(api.Task) frameworktest.Play {
	return func(task api.Task) frameworktest.Play {
		return frameworktest.Play{Forever: true, ReadyAfter: spans[task.Labels[taskset.VersionLabel]]}
	}
}

// healthyOf counts the tasks that run, are healthy and have the version ("" = any).
func healthyOf(set *taskset.Set, version string) (n int) {
	for _, task := range set.Tasks() {
		if healthy := task.Status.Healthy; task.Status.State == api.TaskRunning && healthy != nil && *healthy &&
			(version == "" || task.Status.Labels[taskset.VersionLabel] == version) {
			n++
		}
	}
	return n
}

// TestRollAwaitsReadiness: a new task that is not ready is not up. The next item waits for it, and with Beside the old
// task stays until then.
func TestRollAwaitsReadiness(t *testing.T) {
	for _, beside := range []bool{false, true} {
		cluster := frameworktest.Cluster{Agents: 3, Script: readyAfter(map[string]time.Duration{"v1": 5 * time.Second, "v2": 40 * time.Second})}
		frameworktest.Run(t, cluster, func(c *frameworktest.Handle) {
			var changes rolled
			set := taskset.New(taskset.Config{Rolled: changes.add})
			mustScale(t, set, readied("v1"), 4)
			c.Start(framework.Config{Name: "web"}, set)
			c.Await("all to be ready", func() bool { return healthyOf(set, "v1") == 4 })
			began := c.Now()
			mustRoll(t, set, readied("v2"), taskset.Rolling{AtOnce: 2, Proof: 10 * time.Second, Beside: beside})
			least := 2
			if beside {
				least = 4
			}
			c.Await("the change to be done", func() bool {
				if n := healthyOf(set, ""); n < least {
					t.Errorf("beside %v: %d are up", beside, n)
				}
				return changes.done(1)
			})
			if took := c.Now() - began; took < 100*time.Second || took > 2*time.Minute {
				t.Errorf("beside %v: twice two items that are ready after 40 s and proven after 18 s took %v", beside, took)
			}
			if n := healthyOf(set, "v2"); n != 4 {
				t.Errorf("beside %v: %d of v2 are up", beside, n)
			}
		})
	}
}

// TestRollOfWhatIsNeverReady: when the patience is over the change stops, and its item gets the old version back.
func TestRollOfWhatIsNeverReady(t *testing.T) {
	for _, beside := range []bool{false, true} {
		cluster := frameworktest.Cluster{Agents: 3, Script: readyAfter(map[string]time.Duration{"v2": 1000 * time.Hour})}
		frameworktest.Run(t, cluster, func(c *frameworktest.Handle) {
			var changes rolled
			set := taskset.New(taskset.Config{Rolled: changes.add})
			mustScale(t, set, readied("v1"), 3)
			c.Start(framework.Config{Name: "web"}, set)
			c.Await("all to be ready", func() bool { return healthyOf(set, "v1") == 3 })
			mustRoll(t, set, readied("v2"), taskset.Rolling{Patience: time.Minute, Beside: beside})
			c.AwaitFor(2*time.Minute, "the change to stop", func() bool { return len(changes.told()) > 0 })
			p := changes.told()[0]
			if !p.Stopped || p.New != 0 || p.Why != "web-0: it was not up for 18s within 1m18s of its start" {
				t.Errorf("beside %v: told %+v", beside, p)
			}
			c.AwaitFor(time.Minute, "three of v1 to be up", func() bool { return healthyOf(set, "v1") == 3 && runningOf(set, "") == 3 })
			c.Never(10*time.Minute, "another one to change", func() bool { return runningOf(set, "v2") > 0 })
		})
	}
}

// TestRollOfWhatPassesAtFirst: a new task that passes its check and then no more is bad, however short the proof is; so
// is one that never passes it and is only ended when its grace is over.
func TestRollOfWhatPassesAtFirst(t *testing.T) {
	for _, never := range []bool{false, true} {
		script := readyAfter(nil)
		if never {
			script = readyAfter(map[string]time.Duration{"v2": 1000 * time.Hour})
		}
		frameworktest.Run(t, frameworktest.Cluster{Agents: 3, Script: script}, func(c *frameworktest.Handle) {
			live := func(name string) taskset.Item {
				item := readied(name)
				item.Task.Checks[0].Readiness, item.Task.Checks[0].Grace = false, time.Minute
				return item
			}
			var changes rolled
			set := taskset.New(taskset.Config{Rolled: changes.add})
			mustScale(t, set, live("v1"), 3)
			f := c.Start(framework.Config{Name: "web"}, set)
			c.Await("all to be healthy", func() bool { return healthyOf(set, "v1") == 3 })
			mustRoll(t, set, live("v2"), taskset.Rolling{Proof: time.Second})
			if !never {
				c.Await("the new task to pass its check", func() bool { return healthyOf(set, "v2") == 1 })
				for _, task := range set.Tasks() {
					if task.Status.Labels[taskset.VersionLabel] == "v2" {
						f.SetHealth(task.Status.Task, false)
					}
				}
			}
			c.AwaitFor(2*time.Minute, "the change to stop", func() bool { return len(changes.told()) > 0 })
			if p := changes.told()[0]; !p.Stopped || p.New != 0 || !strings.Contains(p.Why, "failed 3 times in a row") {
				t.Errorf("never %v: told %+v", never, p)
			}
		})
	}
}

// TestRollTriesAgain: as many new tasks as Failures says may be bad. Each is tried again, and the change is done.
func TestRollTriesAgain(t *testing.T) {
	for _, beside := range []bool{false, true} {
		var mu sync.Mutex
		bad := 0
		script := func(task api.Task) frameworktest.Play {
			mu.Lock()
			defer mu.Unlock()
			if task.Labels[taskset.VersionLabel] == "v2" && bad < 2 {
				bad++
				return frameworktest.Play{Duration: 3 * time.Second, ExitCode: 3}
			}
			return frameworktest.Play{Forever: true}
		}
		frameworktest.Run(t, frameworktest.Cluster{Agents: 3, Script: script}, func(c *frameworktest.Handle) {
			var changes rolled
			set := taskset.New(taskset.Config{Rolled: changes.add})
			mustScale(t, set, version("v1", "serve"), 3)
			c.Start(framework.Config{Name: "web"}, set)
			c.AwaitRunning(3)
			mustRoll(t, set, version("v2", "serve"), taskset.Rolling{Failures: 2, Beside: beside})
			c.Await("the change to be done", func() bool { return len(changes.told()) > 0 })
			if p := changes.told()[0]; !p.Done || p.Stopped || p.New != 3 {
				t.Errorf("beside %v: told %+v", beside, p)
			}
			if n := set.Numbers(); n.Failed != 2 || runningOf(set, "v2") != 3 {
				t.Errorf("beside %v: numbers %+v", beside, n)
			}
		})
	}
}

// TestRollGoesBack: when a change stops, all of it is undone, one item at a time like the change itself. A scheduler
// that takes over meanwhile continues with that.
func TestRollGoesBack(t *testing.T) {
	script := func(task api.Task) frameworktest.Play {
		if task.Labels[taskset.VersionLabel] == "v2" && strings.HasPrefix(string(task.ID), "web-3.") {
			return frameworktest.Play{Duration: 3 * time.Second, ExitCode: 3}
		}
		return frameworktest.Play{Forever: true, ReadyAfter: 2 * time.Second}
	}
	frameworktest.Run(t, frameworktest.Cluster{Agents: 3, Script: script}, func(c *frameworktest.Handle) {
		var changes rolled
		config := taskset.Config{Keep: "items", Rolled: changes.add}
		set := taskset.New(config)
		f := c.Start(framework.Config{Name: "web"}, set)
		c.AwaitSettled()
		mustScale(t, set, readied("v1"), 5)
		c.Await("all to be ready", func() bool { return healthyOf(set, "v1") == 5 })
		mustRoll(t, set, readied("v2"), taskset.Rolling{Proof: 10 * time.Second, Back: true})
		c.Await("the change to stop", func() bool {
			if n := healthyOf(set, ""); n < 4 {
				t.Errorf("%d are up", n)
			}
			return len(changes.told()) > 0
		})
		const why = "web-3: FAILED exited with 3"
		want := taskset.Progress{Service: "web", Version: "v2", Items: 5, New: 3, Stopped: true, Why: why}
		if p := changes.told()[0]; p != want {
			t.Errorf("told %+v, want %+v", p, want)
		}
		c.Await("one to be back", func() bool { return healthyOf(set, "v1") == 3 && progressOf(t, set).New == 3 })
		if p := progressOf(t, set); !p.Back || p.Version != "v1" || p.Why != why {
			t.Errorf("on the way back: %+v", p)
		}
		f.Kill()
		set = taskset.New(config)
		f.Again(set)
		c.Await("the way back to be done", func() bool { return len(changes.told()) > 1 })
		want = taskset.Progress{Service: "web", Version: "v1", Items: 5, New: 5, Done: true, Back: true, Why: why}
		if p := changes.told()[1]; p != want {
			t.Errorf("told %+v, want %+v", p, want)
		}
		c.Await("all to run v1", func() bool { return healthyOf(set, "v1") == 5 && runningOf(set, "") == 5 })
	})
}
