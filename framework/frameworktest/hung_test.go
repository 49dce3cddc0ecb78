package frameworktest_test

import (
	"context"
	"strings"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// shared launches two tasks of one executor.
type shared struct{ launched bool }

func (s *shared) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	if s.launched {
		return nil
	}
	s.launched = true
	one := &api.Executor{ID: "x", Command: api.Command{Shell: "x"}}
	return []api.Answer{api.Launch(offers[0],
		api.Task{ID: "hung", Resources: api.Scalars(1, 64), Executor: one},
		api.Task{ID: "neighbour", Resources: api.Scalars(1, 64), Executor: one})}
}

func (s *shared) Update(context.Context, api.Status) error { return nil }

// TestHungTask: the function of a killed task goes on. It can't be ended without the other task of its executor, so the
// scheduler is told of it when the grace is over.
func TestHungTask(t *testing.T) {
	var done chan struct{}
	run := func(ctx context.Context, task *executor.Task) error {
		if task.ID == "hung" {
			<-done
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
	cluster := frameworktest.Cluster{Executors: map[api.ExecutorID]frameworktest.ExecutorFunc{"x": run}}
	frameworktest.Run(t, cluster, func(c *frameworktest.Handle) {
		done = make(chan struct{})
		f := c.Start(framework.Config{Name: "shared"}, &shared{})
		f.AwaitCount(2, api.TaskRunning)
		if err := f.Client().Kill("hung"); err != nil {
			t.Fatal(err)
		}
		c.Await("the reason why it goes on", func() bool {
			list := f.Statuses("hung")
			last := list[len(list)-1]
			return last.State == api.TaskKilling && strings.Contains(last.Message, "not ended within its grace of 5s, and its executor x runs another task")
		})
		f.ExpectLife("neighbour", api.TaskRunning)
		close(done)
		f.AwaitState("hung", api.TaskKilled)
	})
}
