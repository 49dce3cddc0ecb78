package logtail

import (
	"context"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/pause"
)

const (
	// endsEvery is how often to ask which tasks have ended, because masters send no events about tasks.
	endsEvery = time.Second
	// forgottenAfter is how many answers in a row must lack a task until nobody knows it any more. One may lack it only
	// because its agent has not reported to a new leader yet.
	forgottenAfter = 15
)

// AwaitEnds returns nil when all of the tasks have ended, or an error when ctx has. ended is called once for each task,
// with its view after the end, or with nil if nobody knows the task any more. AwaitEnds begins with the given views and
// then calls list; both may lack some of the tasks and contain others.
func AwaitEnds(
	ctx context.Context, views []*apiv1.TaskView, list func(context.Context) ([]*apiv1.TaskView, error), tasks []api.TaskRef,
	ended func(api.TaskRef, *apiv1.TaskView),
) error {
	var err error
	waiting, unknown := slices.Clone(tasks), make(map[api.TaskRef]int, len(tasks))
	for {
		if err == nil { // an error means that masters do not answer, which says nothing about the tasks
			known := make(map[api.TaskRef]*apiv1.TaskView, len(views))
			for _, view := range views {
				known[api.TaskRef{Framework: api.FrameworkID(view.GetFrameworkId()), Task: api.TaskID(view.GetId())}] = view
			}
			waiting = slices.DeleteFunc(waiting, func(task api.TaskRef) bool {
				view := known[task]
				if view != nil {
					unknown[task] = 0
				} else {
					unknown[task]++
				}
				over := HasEnded(view) || unknown[task] >= forgottenAfter
				if over {
					ended(task, view)
				}
				return over
			})
		}
		if len(waiting) == 0 {
			return nil
		}
		if !pause.For(ctx, endsEvery) {
			return ctx.Err()
		}
		views, err = list(ctx)
	}
}

// HasEnded says whether a task is in a terminal state.
func HasEnded(task *apiv1.TaskView) bool {
	state, err := api.ParseTaskState(task.GetState())
	return err == nil && state.Terminal()
}
