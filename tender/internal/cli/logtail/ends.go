package logtail

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/pause"
)

// endsEvery is the least time between two lists, so that tasks that end together are listed once. It is also after which
// time to ask again for what could not be listed.
const endsEvery = time.Second

// AwaitEnds returns nil when all of the tasks have ended, or an error when ctx has. ended is called once for each task,
// with its view after the end, or with nil if nobody knows the task any more. AwaitEnds begins with the given views, which
// may lack some of the tasks, and then calls list: once, whenever the watch of these tasks tells anything, and again after
// each error of list, which means that what is missing may be there all the same.
func AwaitEnds(
	ctx context.Context, views []*apiv1.TaskView, list func(context.Context) ([]*apiv1.TaskView, error),
	watch func(context.Context) iter.Seq2[*apiv1.WatchResponse, error], tasks []api.TaskRef, ended func(api.TaskRef, *apiv1.TaskView),
) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	news := make(chan struct{}, 1)
	tell := func() {
		select {
		case news <- struct{}{}:
		default: // it is not listed yet
		}
	}
	go func() { // it ends with ctx
		for _, err := range watch(ctx) {
			if err == nil {
				tell()
			}
		}
		for pause.For(ctx, endsEvery) { // the masters let nobody watch, or not us
			tell()
		}
	}()
	waiting, whole := slices.Clone(tasks), false
	for {
		known := make(map[api.TaskRef]*apiv1.TaskView, len(views))
		for _, view := range views {
			known[api.TaskRef{Framework: api.FrameworkID(view.GetFrameworkId()), Task: api.TaskID(view.GetId())}] = view
		}
		waiting = slices.DeleteFunc(waiting, func(task api.TaskRef) bool {
			view := known[task]
			over := HasEnded(view) || whole && view == nil
			if over {
				ended(task, view)
			}
			return over
		})
		if len(waiting) == 0 {
			return nil
		}
		if !pause.For(ctx, endsEvery) {
			return ctx.Err()
		}
		if whole {
			select {
			case <-news:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		var err error
		views, err = list(ctx)
		whole = err == nil
	}
}

// HasEnded says whether a task is in a terminal state.
func HasEnded(task *apiv1.TaskView) bool {
	state, err := api.ParseTaskState(task.GetState())
	return err == nil && state.Terminal()
}
