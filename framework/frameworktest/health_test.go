package frameworktest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// clinic launches one task for each of its checks with the first offer.
type clinic struct {
	checks   map[api.TaskID][]api.Check
	launched bool
}

func (c *clinic) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	if c.launched {
		return nil
	}
	c.launched = true
	var tasks []api.Task
	for id, checks := range c.checks {
		tasks = append(tasks, api.Task{ID: id, Resources: api.Scalars(0.5, 64), Command: &api.Command{Shell: "sleep infinity"}, Checks: checks})
	}
	return []api.Answer{api.Launch(offers[0], tasks...)}
}

func (c *clinic) Update(context.Context, api.Status) error { return nil }

// A task is not healthy before it is ready, and each change is told once. A task that fails its check is FAILED for
// that reason. A task without checks has no health. (R44.)
func TestHealth(t *testing.T) {
	script := func(api.Task) frameworktest.Play {
		return frameworktest.Play{Forever: true, ReadyAfter: 7 * time.Second}
	}
	frameworktest.Run(t, frameworktest.Cluster{Script: script}, func(c *frameworktest.Handle) {
		check := api.Check{Command: &api.Command{Shell: "true"}, Interval: 5 * time.Second}
		ready := check
		ready.Readiness = true
		f := c.Start(framework.Config{Name: "clinic"}, &clinic{checks: map[api.TaskID][]api.Check{"live": {check}, "ready": {ready}, "none": nil}})
		f.AwaitCount(3, api.TaskRunning)
		healthy := func(task api.TaskID) string {
			list := f.Statuses(task)
			switch last := list[len(list)-1]; {
			case last.Healthy == nil:
				return "unknown"
			case *last.Healthy:
				return "yes"
			}
			return "no"
		}
		c.Advance(2 * time.Second)
		for task, want := range map[api.TaskID]string{"live": "unknown", "ready": "no", "none": "unknown"} {
			if got := healthy(task); got != want {
				t.Errorf("%s is healthy: %s, want %s", task, got, want)
			}
		}
		c.Advance(7 * time.Second)
		for task, want := range map[api.TaskID]string{"live": "yes", "ready": "yes", "none": "unknown"} {
			if got := healthy(task); got != want {
				t.Errorf("when they are ready %s is healthy: %s, want %s", task, got, want)
			}
		}
		told := len(f.Statuses("ready"))
		c.Advance(10 * time.Minute)
		if n := len(f.Statuses("ready")); n != told {
			t.Errorf("%d statuses while nothing changed", n-told)
		}
		f.SetHealth("ready", false)
		f.SetHealth("live", false)
		end := f.AwaitState("live", api.TaskFailed)
		if end.Reason != api.ReasonHealthCheckFailed || *end.Healthy || !strings.Contains(end.Message, "failed 3 times in a row") {
			t.Errorf("it ended with %+v", end)
		}
		c.Advance(10 * time.Second)
		if got := healthy("ready"); got != "no" {
			t.Errorf("it is healthy: %s", got)
		}
		f.SetHealth("ready", true)
		c.Advance(6 * time.Second)
		if got := healthy("ready"); got != "yes" {
			t.Errorf("it is healthy again: %s", got)
		}
	})
}
