package agent

import (
	"context"
	"path/filepath"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/executor"
	"github.com/tenderhq/tender/api"
)

// fetchesMax is how many tasks and executors get their files at the same time. More wait, so that
// however many are launched, disk and network are shared by a few (R34).
const fetchesMax = 16

// preparations are the fetches of files for tasks and executors.
type preparations struct {
	places chan struct{}                      // holds one for each fetch that is under way
	tasks  map[api.TaskRef]context.CancelFunc // the loop's only
}

func newPreparations() preparations {
	return preparations{places: make(chan struct{}, fetchesMax), tasks: map[api.TaskRef]context.CancelFunc{}}
}

// enter waits until the files may be fetched, at once when there are none, and returns what is to
// be called at the end; nil when the context has ended first.
func (p *preparations) enter(ctx context.Context, uris []api.URI) (leave func()) {
	if len(uris) == 0 {
		return func() {}
	}
	select {
	case p.places <- struct{}{}:
		return func() { <-p.places }
	case <-ctx.Done():
		return nil
	}
}

// stop ends the fetch of a task's files, if one is under way.
func (p *preparations) stop(task api.TaskRef) {
	if cancel := p.tasks[task]; cancel != nil {
		cancel()
		delete(p.tasks, task)
	}
}

// prepareTask brings a task its volumes and files. Nobody waits for them any more when the task has ended
// first, by a kill or with its executor: then preparations.stop ends the fetch.
func (a *Agent) prepareTask(e core.PrepareTask) {
	ctx, cancel := context.WithCancel(a.context)
	a.preparing.tasks[e.Task] = cancel
	a.startWork(func() {
		defer cancel()
		done := core.TaskPrepared{Task: e.Task}
		place := executor.TaskPlace(e.Sandbox, e.Builtin, e.User)
		err := a.showVolumes(ctx, place, e.Volumes)
		if err == nil {
			err = a.fetchFiles(ctx, place, e.URIs)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			done.Reason, done.Message = executor.Reason(err), err.Error()
		}
		a.inbox.postEvent(a.context, done)
	})
}

func (a *Agent) fetchFiles(ctx context.Context, place executor.Place, uris []api.URI) error {
	leave := a.preparing.enter(ctx, uris)
	if leave == nil {
		return ctx.Err()
	}
	defer leave()
	return a.config.Launcher.Prepare(ctx, place, uris)
}

// makeShared makes the folder that the tasks of a group share, as the user's as whom all of them run. A second call does
// nothing.
func (a *Agent) makeShared(ctx context.Context, out outgoing) error {
	holder := filepath.Dir(out.shared)
	err := a.config.Launcher.Prepare(ctx, executor.TaskPlace(holder, out.builtin, out.user), nil)
	if err != nil || a.folder.path == "" {
		return err
	}
	root, err := a.folder.below.At(out.shared).Ensure()
	if err != nil {
		return err
	}
	return root.Close()
}
