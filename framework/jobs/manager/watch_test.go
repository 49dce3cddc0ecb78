package manager_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/framework/jobs/manager"
)

// told is what a watcher of jobs was told.
type told struct {
	phases   map[string]jobs.Phase
	times    map[string]int // how often each job was told
	removed  []string
	complete int   // how many messages with Complete have come
	err      error // the error of the watch; nil while it goes on
}

// watcher watches jobs from a goroutine of its own.
type watcher struct {
	stop context.CancelFunc
	mu   sync.Mutex
	told told
}

func (c *cluster) watch(prefix string) *watcher {
	ctx, stop := context.WithCancel(c.t.Context())
	w := &watcher{stop: stop, told: told{phases: map[string]jobs.Phase{}, times: map[string]int{}}}
	watched := c.manager
	go func() { // ends with the watch
		defer stop()
		err := watched.WatchJobs(ctx, prefix, w.hear)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.told.err = err
	}()
	return w
}

func (w *watcher) hear(news manager.JobsNews) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range news.Changed {
		w.told.phases[one.Name] = one.Phase
		w.told.times[one.Name]++
	}
	w.told.removed = append(w.told.removed, news.Removed...)
	if news.Complete {
		w.told.complete++
	}
	return nil
}

// soFar returns a copy of what was told by now.
func (w *watcher) soFar() told {
	w.mu.Lock()
	defer w.mu.Unlock()
	so := w.told
	so.phases, so.times = maps.Clone(so.phases), maps.Clone(so.times)
	return so
}

// TestJobsAreWatched: a watcher is told of all jobs, then only of those that change, and of those that are deleted. A
// prefix selects jobs. The watch ends with its manager.
func TestJobsAreWatched(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 1}, func(h *frameworktest.Handle) {
		c := begin(h)
		c.submit(service("web", "sleep infinity", 1))
		c.awaitRunning("web", 1)
		c.submit(batch("done", "sleep 10", 1, 1))
		c.awaitPhase("done", jobs.Succeeded)
		all, nightly := c.watch(""), c.watch("nightly-")
		c.Await("the picture to be complete", func() bool { return all.soFar().complete > 0 && nightly.soFar().complete > 0 })
		if len(all.soFar().phases) != 2 || all.soFar().phases["web"] != jobs.Running || all.soFar().phases["done"] != jobs.Succeeded || len(nightly.soFar().phases) != 0 {
			t.Errorf("the pictures are %v and %v", all.soFar().phases, nightly.soFar().phases)
		}
		c.submit(batch("nightly-1", "sleep 10", 1, 1))
		c.AwaitFor(time.Hour, "its end to be told", func() bool {
			return nightly.soFar().phases["nightly-1"] == jobs.Succeeded && all.soFar().phases["nightly-1"] == jobs.Succeeded
		})
		if all.soFar().times["web"] != 1 || all.soFar().times["done"] != 1 || len(nightly.soFar().phases) != 1 {
			t.Errorf("jobs that have not changed were told of again: %v, %v", all.soFar().times, nightly.soFar().times)
		}
		if err := c.manager.DeleteJob(c.t.Context(), "nightly-1"); err != nil {
			t.Fatal(err)
		}
		gone := []string{"nightly-1"}
		c.Await("the deletion to be told", func() bool {
			return slices.Equal(all.soFar().removed, gone) && slices.Equal(nightly.soFar().removed, gone)
		})
		nightly.stop()
		c.Await("the watch to end", func() bool { return nightly.soFar().err != nil })
		first := c.run
		standby := manager.New(manager.Config{})
		next := c.Start(config, standby)
		first.Kill()
		c.Await("the next to be active", standby.Active)
		old := c.manager
		c.manager, c.run = standby, next
		if err := old.StopJob(c.t.Context(), "web"); err == nil { // it notices that it is not active any more
			t.Error("a manager that has ended stops a job")
		}
		c.Await("the watch to end with its manager", func() bool { return api.Is(all.soFar().err, api.Unavailable) })
	})
}

// TestManyJobsAreWatched: the state of many jobs comes in several messages, and the number of watchers is bounded.
func TestManyJobsAreWatched(t *testing.T) {
	const many = 300
	frameworktest.Run(t, frameworktest.Cluster{Agents: 1}, func(h *frameworktest.Handle) {
		c := begin(h)
		for i := range many {
			c.submit(batch(fmt.Sprintf("job-%d", i), "sleep infinity", 1, 1))
		}
		var watchers []*watcher
		for range manager.WatchersMax + 1 {
			watchers = append(watchers, c.watch(""))
		}
		refused := func() (n int) {
			for _, w := range watchers {
				if api.Is(w.soFar().err, api.Limit) {
					n++
				}
			}
			return n
		}
		c.Await("one to be refused, and the others to be told", func() bool {
			told := 0
			for _, w := range watchers {
				if w.soFar().complete > 0 && len(w.soFar().phases) == many {
					told++
				}
			}
			return refused() == 1 && told == manager.WatchersMax
		})
		for _, w := range watchers {
			w.stop()
		}
		c.Await("all watches to end", func() bool {
			return !slices.ContainsFunc(watchers, func(w *watcher) bool { return w.soFar().err == nil })
		})
		again := c.watch("job-7")
		c.Await("another one to be let in", func() bool { return again.soFar().complete > 0 && len(again.soFar().phases) == 11 })
		again.stop()
	})
}
