package frameworktest_test

import (
	"context"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// pair launches two tasks with the first offer.
type pair struct{ launched bool }

func (p *pair) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	if p.launched {
		return nil
	}
	p.launched = true
	var tasks []api.Task
	for _, id := range []api.TaskID{"stubborn", "neighbour"} {
		tasks = append(tasks, api.Task{ID: id, Resources: api.Scalars(1, 64), Command: &api.Command{Shell: "sleep infinity"}, KillGrace: 20 * time.Second})
	}
	return []api.Answer{api.Launch(offers[0], tasks...)}
}

func (p *pair) Update(context.Context, api.Status) error { return nil }

// TestStubborn: a task that ignores its kill ends when the grace is over, as a real process is killed by SIGKILL. The
// other task in the same executor keeps running.
func TestStubborn(t *testing.T) {
	script := func(task api.Task) frameworktest.Play {
		return frameworktest.Play{Forever: true, Stubborn: task.ID == "stubborn"}
	}
	frameworktest.Run(t, frameworktest.Cluster{Script: script}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "pair"}, &pair{})
		f.AwaitCount(2, api.TaskRunning)
		asked := c.Now()
		// It does not take the 20 s of the task. A second kill shortens the grace, and a third does not lengthen it.
		for _, grace := range []time.Duration{15 * time.Second, 7 * time.Second, 30 * time.Second} {
			if err := f.Client().Kill("stubborn", framework.Within(grace)); err != nil {
				t.Fatal(err)
			}
		}
		end := f.AwaitState("stubborn", api.TaskKilled)
		if took := c.Now() - asked; took < 7*time.Second || took > 8*time.Second {
			t.Errorf("it ended %v after the kill, its shortest grace is 7s", took)
		}
		if end.ExitCode == nil || *end.ExitCode != 137 || end.Reason != api.ReasonKilledByFramework {
			t.Errorf("its end is %+v", end)
		}
		f.ExpectLife("neighbour", api.TaskRunning)
	})
}
