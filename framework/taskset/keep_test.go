package taskset_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/taskset"
)

// storeKeys lists the keys of the framework's store.
func storeKeys(c *frameworktest.Handle, f *frameworktest.Framework) string {
	c.T().Helper()
	entries, err := f.Client().Store().List(c.T().Context(), "")
	if err != nil {
		c.T().Fatal(err)
	}
	var keys []string
	for _, entry := range entries {
		keys = append(keys, entry.Key)
	}
	return strings.Join(keys, " ")
}

// TestKeep: what Add, Scale and Remove have accepted (they returned nil) holds after takeovers, by schedulers that know
// nothing of it. What has ended is not done again.
func TestKeep(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Masters: 3, Agents: 2}, func(c *frameworktest.Handle) {
		loaded := 0
		config := taskset.Config{Keep: "items", Loaded: func(ctx context.Context, set *taskset.Set) error {
			loaded++
			if len(set.Services()) > 0 {
				return nil
			}
			return set.Scale(ctx, "web", command("", "sleep infinity"), 2)
		}}
		set := taskset.New(config)
		if err := set.Add(context.Background(), command("early", "true")); !api.Is(err, api.Unavailable) || !strings.Contains(err.Error(), "Config.Loaded or later") {
			t.Errorf("before the first session: %v", err)
		}
		f := c.Start(framework.Config{Name: "shop", Standby: true, FailoverTimeout: time.Hour}, set)
		c.AwaitRunning(2)
		night := command("night", "sleep infinity")
		night.Role, night.Group = "night", "night"
		if err := set.Add(context.Background(), command("short", "sleep 5"), command("long", "sleep infinity"), command("gone", "sleep infinity"), night); err != nil {
			t.Fatal(err)
		}
		if err := set.Add(context.Background(), command("short", "sleep 5")); !api.Is(err, api.Exists) {
			t.Errorf("an ID that is taken: %v", err)
		}
		mustScale(t, set, command("", "sleep infinity"), 3)
		if err := set.Remove(context.Background(), "gone", "nobody"); err != nil {
			t.Fatal(err)
		}
		f.AwaitCount(1, api.TaskFinished)
		c.Await("the end to be in the store", func() bool { return storeKeys(c, f) == "items/item/long items/item/night items/service/web" })
		c.Leader().Kill()
		f.Kill()
		set = taskset.New(config)
		f = c.Start(framework.Config{Name: "shop", Standby: true, FailoverTimeout: time.Hour}, set)
		c.Await("all to be taken over", func() bool { return set.Numbers().Items == 5 && runningOf(set, "") == 5 })
		c.Advance(time.Minute)
		if n := set.Numbers(); n.Attempts != 0 || n.Items != 5 || loaded != 2 {
			t.Errorf("numbers %+v, loaded %d times", n, loaded)
		}
		if services := set.Services(); len(services) != 1 || services[0].Count != 3 {
			t.Errorf("services %+v", services)
		}
		mustScale(t, set, command("", "sleep infinity"), 0)
		if err := set.Remove(context.Background(), "night"); err != nil {
			t.Fatal(err)
		}
		if keys := storeKeys(c, f); keys != "items/item/long" {
			t.Errorf("the store has %s", keys)
		}
	})
}

// TestASetIsNotActiveTwice: a set is cut off, and another instance finishes its items. When that one dies, the first set
// does not go on from what it remembers: Run ends, and a new set knows what was done.
func TestASetIsNotActiveTwice(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 1}, func(c *frameworktest.Handle) {
		config := framework.Config{Name: "shop", Standby: true, FailoverTimeout: time.Hour}
		first := c.Start(config, taskset.New(taskset.Config{Keep: "items", Loaded: func(ctx context.Context, set *taskset.Set) error {
			return set.Add(ctx, command("one", "sleep 20"), command("two", "sleep 20"))
		}}))
		c.AwaitRunning(2)
		first.Isolate()
		second := c.Start(config, taskset.New(taskset.Config{Keep: "items"}))
		second.AwaitCount(2, api.TaskFinished)
		c.Await("the ends to be in the store", func() bool { return storeKeys(c, second) == "" })
		first.Rejoin()
		c.Advance(5 * time.Second)
		second.Kill()
		c.Await("the first set to end", func() bool {
			select {
			case <-first.Ended():
				return true
			default:
				return false
			}
		})
		if err := first.Stop(); !errors.Is(err, framework.ErrFenced) || !strings.Contains(err.Error(), "run a new set") {
			t.Errorf("it ends with: %v", err)
		}
		set := taskset.New(taskset.Config{Keep: "items"})
		c.Start(config, set)
		c.Advance(time.Minute)
		if n := set.Numbers(); n.Items != 0 {
			t.Errorf("the new set has %+v", n)
		}
	})
}

// TestAChangeIsLeft: while no master answers, who changes a kept set waits as long as its context says, also behind
// another change, and the set is as before. Afterwards the store holds what the set has.
func TestAChangeIsLeft(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 1}, func(c *frameworktest.Handle) {
		set := taskset.New(taskset.Config{Keep: "items"})
		f := c.Start(framework.Config{Name: "shop", FailoverTimeout: time.Hour}, set)
		c.Await("the store to be read", func() bool { return set.Remove(context.Background()) == nil })
		if err := set.Add(context.Background(), command("long", "sleep infinity")); err != nil {
			t.Fatal(err)
		}
		mustScale(t, set, version("v1", "sleep infinity"), 1)
		c.AwaitRunning(2)
		master := c.Leader()
		master.Kill()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		var calls sync.WaitGroup
		for name, call := range map[string]func() error{
			"Add":    func() error { return set.Add(ctx, command("late", "sleep infinity")) },
			"Remove": func() error { return set.Remove(ctx, "long") },
			"Scale":  func() error { return set.Scale(ctx, "web", version("v1", "sleep infinity"), 0) },
			"Roll":   func() error { return set.Roll(ctx, "web", version("v2", "sleep infinity"), taskset.Rolling{}) },
			"a role": func() error {
				other := command("other", "sleep infinity")
				other.Role, other.Group = "night", "night"
				return set.Add(ctx, other)
			},
		} {
			calls.Go(func() {
				if err := call(); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		calls.Wait()
		if n, services := set.Numbers(), set.Services(); n.Items != 2 || len(services) != 1 || services[0].Rolling != nil {
			t.Errorf("%d items, services %+v", n.Items, services)
		}
		master.Start()
		c.Await("the store to be whole", func() bool { return storeKeys(c, f) == "items/item/long items/service/web" })
		c.Advance(time.Minute)
		if n := set.Numbers(); n.Items != 2 || n.Running != 2 || n.Attempts != 2 {
			t.Errorf("%+v", n)
		}
	})
}

// TestKeptRollGoesOn: a scheduler that takes over completes a rolling change without being asked to. A change that has
// stopped stays stopped, and no task changes its version.
func TestKeptRollGoesOn(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 3}, func(c *frameworktest.Handle) {
		config := taskset.Config{Keep: "items"}
		set := taskset.New(config)
		f := c.Start(framework.Config{Name: "shop", FailoverTimeout: time.Hour}, set)
		c.Await("the store to be read", func() bool { return set.Remove(context.Background()) == nil })
		mustScale(t, set, version("v1", "sleep infinity"), 4)
		c.AwaitRunning(4)
		mustRoll(t, set, version("v2", "sleep infinity"), taskset.Rolling{Proof: 20 * time.Second})
		for proven := 1; proven < 4; proven++ {
			c.Await("one more to be proven", func() bool { return progressOf(t, set).New == proven })
			known := newTasks(set)
			f.Kill()
			set = taskset.New(config)
			f = f.Again(set)
			c.Await("all to be taken over", func() bool { return len(set.Services()) == 1 && runningOf(set, "") >= 3 })
			for _, id := range known {
				if !strings.Contains(fmt.Sprint(newTasks(set)), id) {
					t.Errorf("%s was new and does not run any more", id)
				}
			}
		}
		c.Await("the change to be done", func() bool {
			services := set.Services()
			return len(services) == 1 && services[0].Like.Task.Labels[taskset.VersionLabel] == "v2" && runningOf(set, "v2") == 4
		})
		mustRoll(t, set, version("v3", "sleep 5; exit 1"), taskset.Rolling{})
		c.Await("the change to stop", func() bool { return progressOf(t, set).Stopped && runningOf(set, "v2") == 4 })
		c.Advance(time.Second) // time for the set's goroutine to write it to the store
		f.Kill()
		set = taskset.New(config)
		f.Again(set)
		c.Await("all to be taken over", func() bool { return runningOf(set, "v2") == 4 })
		c.Never(5*time.Minute, "the change to go on", func() bool { return runningOf(set, "v2") != 4 || set.Numbers().Attempts > 0 })
		if p := progressOf(t, set); !p.Stopped || p.Version != "v3" || p.Why != "web-0: FAILED exited with 1" {
			t.Errorf("progress %+v", p)
		}
	})
}

// TestKeptQueue: every item that Add has accepted is done, although schedulers are killed at any moment, and no item is
// finished by two tasks.
func TestKeptQueue(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 2}, func(c *frameworktest.Handle) {
		var mu sync.Mutex
		ended, finished := map[string]int{}, map[string]map[api.TaskID]bool{}
		config := taskset.Config{
			Keep: "jobs",
			Update: func(_ context.Context, item string, status api.Status) error {
				mu.Lock()
				defer mu.Unlock()
				if status.State == api.TaskFinished {
					if finished[item] == nil {
						finished[item] = map[api.TaskID]bool{}
					}
					finished[item][status.Task] = true
				}
				return nil
			},
			Ended: func(o taskset.Outcome) {
				mu.Lock()
				defer mu.Unlock()
				ended[o.Item]++
			},
		}
		random := rand.New(rand.NewPCG(7, 7))
		var asked []string
		set := taskset.New(config)
		f := c.Start(framework.Config{Name: "queue", FailoverTimeout: time.Hour}, set)
		for i := range 24 {
			c.Await("the store to be read", func() bool { return set.Remove(context.Background()) == nil })
			id := fmt.Sprint("job-", i)
			if err := set.Add(context.Background(), command(id, fmt.Sprintf("sleep %v", random.Float64()))); err != nil {
				t.Fatal(err)
			}
			asked = append(asked, id)
			c.Advance(time.Duration(random.IntN(700)) * time.Millisecond)
			if i%3 == 2 {
				f.Kill()
				set = taskset.New(config)
				f = f.Again(set)
			}
		}
		c.Await("the store to be empty", func() bool {
			return set.Remove(context.Background()) == nil && set.Numbers().Items == 0 && storeKeys(c, f) == ""
		})
		for _, id := range asked {
			if ended[id] == 0 || len(finished[id]) != 1 {
				t.Errorf("%s has ended %d times, by the tasks %v", id, ended[id], finished[id])
			}
		}
	})
}

// TestKeepNeedsItsOwnPrefix: Keep and Remember must not use the same keys, because a record of Remember is no item.
func TestKeepNeedsItsOwnPrefix(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		set := taskset.New(taskset.Config{Keep: "jobs/items", Remember: "jobs"})
		if err := c.Start(framework.Config{Name: "queue"}, set).Await(); err == nil || !strings.Contains(err.Error(), "must be two") {
			t.Errorf("Run returned %v", err)
		}
	})
}
