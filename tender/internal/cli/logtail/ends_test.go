package logtail_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/tender/internal/cli/logtail"
)

// Each end is told once. A leader that does not answer is no end, and neither is that a task is missing while agents have
// yet to report it.
func TestAwaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		view := func(task, state string) *apiv1.TaskView {
			return &apiv1.TaskView{FrameworkId: "f", Id: task, State: state}
		}
		list := func(context.Context) ([]*apiv1.TaskView, error) {
			switch seconds := int(time.Since(began) / time.Second); {
			case seconds == 0:
				return []*apiv1.TaskView{view("a", "FINISHED"), view("b", "RUNNING"), view("other", "RUNNING")}, nil
			case seconds == 1:
				return nil, errors.New("nobody leads")
			case seconds < 16:
				return []*apiv1.TaskView{view("a", "FINISHED")}, errors.New("not yet known")
			case seconds == 16:
				return []*apiv1.TaskView{view("b", "RUNNING")}, nil
			}
			return nil, nil
		}
		var told []string
		known, _ := list(t.Context())
		err := logtail.AwaitEnds(t.Context(), known, list, []api.TaskRef{{Framework: "f", Task: "a"}, {Framework: "f", Task: "b"}},
			func(task api.TaskRef, view *apiv1.TaskView) {
				told = append(told, task.String()+" "+view.GetState()+" after "+time.Since(began).String())
			})
		if want := []string{"f/a FINISHED after 0s", "f/b  after 17s"}; err != nil || !slices.Equal(told, want) {
			t.Errorf("told %q, want %q; %v", told, want, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		running := func(context.Context) ([]*apiv1.TaskView, error) { return []*apiv1.TaskView{view("a", "RUNNING")}, nil }
		err = logtail.AwaitEnds(ctx, nil, running, []api.TaskRef{{Framework: "f", Task: "a"}}, func(api.TaskRef, *apiv1.TaskView) { t.Error("it has ended") })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it runs: %v", err)
		}
	})
}
