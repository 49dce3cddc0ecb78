package manager_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/framework/jobs/manager"
	"github.com/tenderhq/tender/internal/calendar"
	"github.com/tenderhq/tender/internal/pause"
)

// small is a store that holds little, and refuses as masters do.
type small struct {
	mu      sync.Mutex
	bound   int
	sizes   map[string]int
	used    int
	refuses string // how the keys begin that are always refused; "": none
	slow    string // how the keys end whose writes take a minute; "": none
	refused int    // how many writes were refused
}

// room reports whether there is room for a value, and takes it.
func (s *small) room(key string, size, keepFree int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	growth := len(key) + size - s.sizes[key]
	if growth > 0 && s.used+growth > s.bound-s.bound*keepFree/100 || s.refuses != "" && strings.HasPrefix(key, s.refuses) {
		s.refused++
		return false
	}
	s.sizes[key], s.used = len(key)+size, s.used+growth
	return true
}

func (s *small) has(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, is := s.sizes[key]
	return is
}

func (s *small) free(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= s.sizes[key]
	delete(s.sizes, key)
}

// refuse makes the store refuse all keys that begin so; "" ends that.
func (s *small) refuse(prefix string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuses = prefix
}

// slowDown makes all writes of keys that end so take a minute.
func (s *small) slowDown(suffix string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow = suffix
}

func (s *small) isSlow(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slow != "" && strings.HasSuffix(key, s.slow)
}

// refusals returns how many writes were refused.
func (s *small) refusals() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// write is what the store does before a write.
func (s *small) write(ctx context.Context, key string, size, keepFree int) error {
	if s.isSlow(key) {
		pause.For(ctx, time.Minute)
	}
	if !s.room(key, size, keepFree) {
		return api.E("store.put", api.Limit, key, errors.New("the framework's store would hold too much"))
	}
	return nil
}

// did takes note of what was deleted.
func (s *small) did(verb, what string, err error) error {
	if verb == "delete" && err == nil {
		s.free(what)
	}
	return err
}

// beginCramped starts a manager whose store holds so many bytes.
func beginCramped(h *frameworktest.Handle, bound int) (*cluster, *small) {
	s := &cluster{Handle: h, t: h.T()}
	store := &small{bound: bound, sizes: make(map[string]int)}
	m := manager.New(manager.Config{Calendar: calendar.Next})
	s.run = s.Start(config, between{m, store.write, store.did})
	s.Await("the manager to be active", m.Active)
	s.manager = m
	return s, store
}

// TestAFullStore: a store that is nearly full takes no new jobs and no new versions; what it has goes on to its end,
// and a deletion always succeeds and makes room.
func TestAFullStore(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 2}, func(h *frameworktest.Handle) {
		c, store := beginCramped(h, 64<<10)
		c.submit(batch("live", "sleep 10", 300, 10))
		c.awaitRunning("live", 10)
		large := jobs.Job{Name: "x", Type: jobs.CronType, Cron: &jobs.Cron{Schedule: "@yearly"},
			Task: jobs.Task{Command: "true", Env: map[string]string{"LARGE": strings.Repeat("x", 2000)}}}
		stored := 0
		var refused error
		for ; refused == nil && stored < 1000; stored++ {
			large.Name = fmt.Sprint("large-", stored)
			_, refused = c.manager.SubmitJob(c.t.Context(), large)
		}
		stored--
		if !api.Is(refused, api.Limit) || !strings.Contains(refused.Error(), "delete some that nobody needs") {
			t.Fatalf("after %d jobs: %v", stored, refused)
		}
		if _, err := c.manager.JobStatus(c.t.Context(), large.Name); !api.Is(err, api.NotFound) {
			t.Errorf("the refused job: %v", err)
		}
		more := large
		more.Name, more.Task.Env = "large-0", map[string]string{"LARGE": strings.Repeat("y", 2500)}
		if _, err := c.manager.UpdateJob(c.t.Context(), more, 0); !api.Is(err, api.Limit) {
			t.Errorf("a new version: %v", err)
		}
		before := store.refusals()
		c.awaitPhase("live", jobs.Succeeded)
		if after := store.refusals(); after != before {
			t.Errorf("%d writes of a job that runs were refused", after-before)
		}
		for i := range 2 {
			if err := c.manager.DeleteJob(c.t.Context(), fmt.Sprint("large-", i)); err != nil {
				t.Error(err)
			}
		}
		c.AwaitFor(time.Minute, "room for another job", func() bool {
			_, err := c.manager.SubmitJob(c.t.Context(), large)
			return err == nil
		})
	})
}

// TestAJobThatDoesNotFit: a job that the store refuses is set aside and says so; no task of it begins, nothing of it is
// repeated without end, and other jobs go on. When there is room again it goes on by itself.
func TestAJobThatDoesNotFit(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 2}, func(h *frameworktest.Handle) {
		c, store := beginCramped(h, 1<<30)
		store.refuse("jobs/wide/part/")
		c.submit(batch("wide", "sleep 10", 4, 4))
		c.submit(batch("live", "sleep 10", 40, 4))
		c.Await("the job to be set aside", func() bool { return strings.Contains(c.status("wide").Why, "set aside") })
		c.awaitPhase("live", jobs.Succeeded)
		list, _, err := c.manager.ListJobs(c.t.Context(), manager.ListQuery{Prefix: "wide"})
		if err != nil || len(list) != 1 || !strings.Contains(list[0].Why, "would hold too much") {
			t.Errorf("the list: %+v, %v", list, err)
		}
		c.run.ExpectCount(40, api.TaskFinished)
		before := store.refusals()
		c.Advance(time.Minute)
		if tries := store.refusals() - before; tries == 0 || tries > 10 {
			t.Errorf("it was refused %d times in a minute", tries)
		}
		store.refuse("")
		if status := c.awaitPhase("wide", jobs.Succeeded); status.Why != "" {
			t.Errorf("it says %q", status.Why)
		}
		c.run.ExpectCount(44, api.TaskFinished)
		c.AwaitQuiet()
	})
}

// TestAJobThatIsSetAsideIsDeleted, also while its tasks run and nothing of them fits into the store.
func TestAJobThatIsSetAsideIsDeleted(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 2}, func(h *frameworktest.Handle) {
		c, store := beginCramped(h, 1<<30)
		c.submit(service("wide", "sleep infinity", 2))
		c.awaitRunning("wide", 2)
		store.refuse("jobs/wide/part/")
		more := service("wide", "sleep infinity", 3)
		if _, err := c.manager.UpdateJob(c.t.Context(), more, 0); err != nil && !api.Is(err, api.Limit) {
			t.Fatal(err)
		}
		c.Await("the job to be set aside", func() bool { return strings.Contains(c.status("wide").Why, "set aside") })
		if err := c.manager.DeleteJob(c.t.Context(), "wide"); err != nil {
			t.Error(err)
		}
		c.Await("the job to be gone", func() bool {
			_, err := c.manager.JobStatus(c.t.Context(), "wide")
			return api.Is(err, api.NotFound)
		})
		c.AwaitQuiet()
	})
}

// TestAJobThatEndsWhileItIsChanged: whoever changes it is told so, and not that it has the new version.
func TestAJobThatEndsWhileItIsChanged(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Agents: 1}, func(h *frameworktest.Handle) {
		c, store := beginCramped(h, 1<<30)
		store.slowDown("/version/2")
		c.submit(batch("brief", "sleep 10", 1, 1))
		c.awaitRunning("brief", 1)
		if version, err := c.manager.UpdateJob(c.t.Context(), batch("brief", "sleep 10; true", 1, 1), 0); !api.Is(err, api.Stale) {
			t.Errorf("told %+v, %v", version, err)
		}
		if status := c.status("brief"); status.Phase != jobs.Succeeded || status.Version != 1 {
			t.Errorf("%+v", status)
		}
		c.Await("the version that it did not get to be deleted", func() bool { return !store.has("jobs/brief/version/2") })
	})
}

// TestAJobThatIsStopping: whoever begins it anew is told when to ask again, and by then it begins.
func TestAJobThatIsStopping(t *testing.T) {
	script := func(api.Task) frameworktest.Play { return frameworktest.Play{Forever: true, Stubborn: true} }
	frameworktest.Run(t, frameworktest.Cluster{Agents: 1, Script: script}, func(h *frameworktest.Handle) {
		c, _ := beginCramped(h, 1<<30)
		job := batch("brief", "sleep 1h", 1, 1)
		c.submit(job)
		c.awaitRunning("brief", 1)
		if err := c.manager.StopJob(c.t.Context(), "brief"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.manager.SubmitJob(c.t.Context(), job); !api.Transient(err) || api.RetryAfter(err) == 0 {
			t.Errorf("while it stops: %v", err)
		}
		h.Await("its end", func() bool { return c.status("brief").Phase == jobs.Stopped })
		if version, err := c.manager.SubmitJob(c.t.Context(), job); err != nil || version.Number != 2 {
			t.Errorf("once it has stopped: %+v, %v", version, err)
		}
	})
}
