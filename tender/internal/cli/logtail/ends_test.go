package logtail_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/pause"
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
		watch := func(ctx context.Context) iter.Seq2[*apiv1.WatchResponse, error] {
			return func(yield func(*apiv1.WatchResponse, error) bool) {
				for _, after := range []time.Duration{0, 17 * time.Second, 3 * time.Second} {
					if !pause.For(ctx, after) || !yield(&apiv1.WatchResponse{}, nil) {
						return
					}
				}
				<-ctx.Done()
			}
		}
		var told []string
		known, _ := list(t.Context())
		err := logtail.AwaitEnds(t.Context(), known, list, watch, []api.TaskRef{{Framework: "f", Task: "a"}, {Framework: "f", Task: "b"}},
			func(task api.TaskRef, view *apiv1.TaskView) {
				told = append(told, task.String()+" "+view.GetState()+" after "+time.Since(began).String())
			})
		if want := []string{"f/a FINISHED after 0s", "f/b  after 17s"}; err != nil || !slices.Equal(told, want) {
			t.Errorf("told %q, want %q; %v", told, want, err)
		}
		lists := 0
		running := func(context.Context) ([]*apiv1.TaskView, error) {
			lists++
			return []*apiv1.TaskView{view("a", "RUNNING")}, nil
		}
		denied := func(context.Context) iter.Seq2[*apiv1.WatchResponse, error] {
			return func(yield func(*apiv1.WatchResponse, error) bool) { yield(nil, errors.New("denied")) }
		}
		for _, c := range []struct {
			watch func(context.Context) iter.Seq2[*apiv1.WatchResponse, error]
			most  int
		}{{watch, 4}, {denied, 61}} { // a task that only runs is listed at first, and when the watch tells something
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			lists = 0
			err = logtail.AwaitEnds(ctx, nil, running, c.watch, []api.TaskRef{{Framework: "f", Task: "a"}}, func(api.TaskRef, *apiv1.TaskView) { t.Error("it has ended") })
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) || lists < min(c.most, 55) || lists > c.most {
				t.Errorf("it runs, and was listed %d times, want %d: %v", lists, c.most, err)
			}
		}
	})
}
