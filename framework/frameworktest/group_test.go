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

// pods launches groups one after the other, each from an offer of its own.
type pods struct{ groups [][]api.Task }

func (p *pods) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	var answers []api.Answer
	for _, offer := range offers {
		if len(p.groups) == 0 {
			break
		}
		answers = append(answers, api.LaunchGroup(offer, p.groups[0]...))
		p.groups = p.groups[1:]
	}
	return answers
}

func (p *pods) Update(context.Context, api.Status) error { return nil }

func groupOf(ids ...api.TaskID) []api.Task {
	tasks := make([]api.Task, len(ids))
	for i, id := range ids {
		tasks[i] = api.Task{ID: id, Resources: api.Scalars(0.5, 64), Command: &api.Command{Shell: "serve"}}
	}
	return tasks
}

// A group starts whole or not at all. A task that ends well leaves it. When a task ends otherwise, by itself or because
// it is killed, the others are killed. (R46.)
func TestTaskGroups(t *testing.T) {
	script := func(api.Task) frameworktest.Play { return frameworktest.Play{Forever: true} }
	frameworktest.Run(t, frameworktest.Cluster{Agents: 3, Script: script}, func(c *frameworktest.Handle) {
		large := groupOf("small", "large")
		large[1].Resources = api.Scalars(1000, 64)
		groups := [][]api.Task{groupOf("web", "proxy", "init"), groupOf("left", "right"), large}
		f := c.Start(framework.Config{Name: "pods"}, &pods{groups: groups})
		f.AwaitCount(5, api.TaskRunning)
		f.AwaitState("large", api.TaskError)
		if end := f.AwaitState("small", api.TaskDropped); end.Reason != api.ReasonTaskGroupFailed || !strings.Contains(end.Message, "task large of its group") {
			t.Errorf("the other one of a group that does not fit ended with %+v", end)
		}
		f.EndTask("init", frameworktest.Play{})
		f.AwaitState("init", api.TaskFinished)
		c.Advance(time.Minute)
		f.ExpectCount(4, api.TaskRunning)

		f.EndTask("proxy", frameworktest.Play{ExitCode: 3})
		f.AwaitState("proxy", api.TaskFailed)
		end := f.AwaitState("web", api.TaskKilled)
		if end.Reason != api.ReasonTaskGroupFailed || !strings.Contains(end.Message, "task proxy of its group has ended FAILED") {
			t.Errorf("the other one of a group of which one has failed ended with %+v", end)
		}
		if err := f.Client().Kill("left"); err != nil {
			t.Fatal(err)
		}
		f.AwaitState("left", api.TaskKilled)
		f.ExpectReason("left", api.ReasonKilledByFramework)
		f.AwaitState("right", api.TaskKilled)
		f.ExpectReason("right", api.ReasonTaskGroupFailed)
	})
}
