package agent

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/executor"
	"github.com/tenderhq/tender/agent/fetch"
	"github.com/tenderhq/tender/agent/images"
	"github.com/tenderhq/tender/agent/images/setup"
	"github.com/tenderhq/tender/agent/secrets"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// fetchesMax is how many tasks and executors get their files at the same time. Further ones wait, so that disk and
// network are shared by only a few, however many are launched (R34).
const fetchesMax = 16

// preparations fetch files, images and secrets for tasks and executors.
type preparations struct {
	images *images.Store // nil: no task runs in an image
	places chan struct{} // has one element for each fetch that is under way
	mu     sync.Mutex
	tasks  map[api.TaskRef]*preparation // those that are not over; guarded by mu
	// secrets holds those of tasks that are about to start; the loop's goroutine only.
	secrets  secrets.Box
	launcher executor.Launcher
	views    views
	log      zerolog.Logger
}

// preparation is what is being made ready for one launch of a task.
type preparation struct {
	cancel context.CancelFunc
	over   chan struct{} // closed when nothing more is done for it
}

func newPreparations(launcher executor.Launcher, views views, log zerolog.Logger) preparations {
	return preparations{
		places: make(chan struct{}, fetchesMax), tasks: map[api.TaskRef]*preparation{}, launcher: launcher, views: views, log: log,
	}
}

// enter waits until the files may be fetched; if there are none it does not wait. It returns a function to call at the
// end, or nil if the context has ended first.
func (p *preparations) enter(ctx context.Context, uris []api.URI) (leave func()) {
	if len(uris) == 0 {
		return func() {}
	}
	return p.enterLine(ctx)
}

// enterLine waits until something, such as an image, may be fetched. It returns a function to call at the end, or nil
// if the context has ended first.
func (p *preparations) enterLine(ctx context.Context) (leave func()) {
	select {
	case p.places <- struct{}{}:
		return func() { <-p.places }
	case <-ctx.Done():
		return nil
	}
}

// begin notes a preparation. It returns the one of a former launch of the task's ID, which shares its folder, if that is
// not over yet; else nil.
func (p *preparations) begin(task api.TaskRef, cancel context.CancelFunc) (mine, former *preparation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	former = p.tasks[task]
	mine = &preparation{cancel: cancel, over: make(chan struct{})}
	p.tasks[task] = mine
	return mine, former
}

func (p *preparations) end(task api.TaskRef, one *preparation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tasks[task] == one {
		delete(p.tasks, task)
	}
	one.cancel()
	close(one.over)
}

// stop cancels what is being made ready for a task, if anything is.
func (p *preparations) stop(task api.TaskRef) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one := p.tasks[task]; one != nil {
		one.cancel()
	}
}

// prepareTask gives a task its volumes, files and image. If the task ends first, by a kill or with its executor,
// preparations.stop cancels that.
func (a *Agent) prepareTask(e core.PrepareTask) {
	task := e.Task.TaskRef
	files, missing := a.preparing.secrets.Files(task, e.Secrets)
	ctx, cancel := context.WithCancel(a.context)
	mine, former := a.preparing.begin(task, cancel)
	a.startWork(func() {
		defer a.preparing.end(task, mine)
		if former != nil {
			<-former.over // it was cancelled, and may still take back what it has made
		}
		done := core.TaskPrepared{Task: e.Task}
		place := executor.TaskPlace(e.Sandbox, e.Builtin, executor.As{User: e.User, Owner: e.Owner})
		place.DiskMax = e.DiskMax
		err := a.showVolumes(ctx, place, e.Volumes)
		if err == nil {
			err = a.fetchFiles(ctx, place, e.URIs)
		}
		if err == nil && e.Image != "" {
			done.Image, err = a.pullImage(ctx, e)
		}
		if err == nil && len(e.Secrets) > 0 {
			err = a.preparing.showSecrets(e.Sandbox, files, missing)
		}
		if err == nil { // last, so that little time is left in which somebody else may take them
			err = a.config.Launcher.TryPorts(e.Ports)
		}
		if ctx.Err() != nil {
			a.preparing.images.Release(task)
			a.preparing.hideSecrets(task, e.Sandbox, len(files) > 0)
			return
		}
		if err != nil {
			done.Reason, done.Message = executor.Reason(err), err.Error()
		}
		a.inbox.postEvent(a.context, done)
	})
}

// pullImage gives a task its image. The sandbox exists already, and may belong to another user afterwards: the one that
// the image names. The task's volumes then belong to that user too.
func (a *Agent) pullImage(ctx context.Context, e core.PrepareTask) (pinned string, err error) {
	if a.preparing.images == nil { // a cluster in memory has no images
		return e.Image, nil
	}
	leave := a.preparing.enterLine(ctx)
	if leave == nil {
		return "", ctx.Err()
	}
	defer leave()
	pinned, err = a.preparing.images.Prepare(ctx, images.Wish{
		Task: e.Task.TaskRef, Reference: e.Image, Sandbox: a.folder.below.At(e.Sandbox), UserAsked: e.User != "", Copied: a.cells.CopyImages(),
	})
	if err != nil {
		return "", &executor.FetchError{Err: err, Away: fetch.IsAway(err) || api.Is(err, api.Unavailable)}
	}
	return pinned, a.folder.showVolumes(e.Sandbox, e.Volumes)
}

// openImages opens the store of the images that an agent keeps.
func (p *preparations) openImages(a *Agent) (err error) {
	if a.cells.NoImages() != "" {
		return nil
	}
	config := a.config.Images
	config.Folder, config.Local = a.folder.at("images"), a.config.FetchLocal
	p.images, err = images.Open(config)
	return err
}

// giveUpImages deletes images that no task uses, because the disk has little space.
func (p *preparations) giveUpImages() {
	if _, err := p.images.GiveUp(); err != nil {
		p.log.Error().Err(err).Msg("an unused image was not deleted")
	}
}

// rememberImages notes which images are used by tasks that outlived the previous agent.
func (p *preparations) rememberImages(tasks *core.Core) {
	p.images.ReleaseAll()
	for _, task := range tasks.Imaged() {
		if says, err := setup.Read(task.Folder); err == nil { // else the image is pulled again, if the task has not started
			p.images.Hold(task.Task, says.Layers)
		}
	}
}

func (a *Agent) fetchFiles(ctx context.Context, place executor.Place, uris []api.URI) error {
	leave := a.preparing.enter(ctx, uris)
	if leave == nil {
		return ctx.Err()
	}
	defer leave()
	return a.config.Launcher.Prepare(ctx, place, uris)
}

// makeShared makes the folder that the tasks of a group share. It belongs to the user that all of them run as. A second
// call does nothing.
func (a *Agent) makeShared(ctx context.Context, out outgoing) error {
	holder := filepath.Dir(out.shared)
	err := a.config.Launcher.Prepare(ctx, executor.TaskPlace(holder, out.builtin, out.as), nil)
	if err != nil || a.folder.path == "" {
		return err
	}
	root, err := a.folder.below.At(out.shared).Ensure()
	if err != nil {
		return err
	}
	return root.Close()
}

// showSecrets writes the files of a task's secrets into its folder, unless some are missing.
func (p *preparations) showSecrets(folder string, files map[string]protocol.Hidden, missing error) error {
	if missing != nil {
		return missing
	}
	return p.launcher.ShowSecrets(folder, files)
}

// dropSecrets forgets the values of a task's secrets. If folder is not "", it also removes their files from that
// folder.
func (p *preparations) dropSecrets(task api.TaskRef, folder string) {
	p.secrets.Drop(task)
	p.hideSecrets(task, folder, folder != "")
}

// hideSecrets removes the files of a task's secrets, if there are any.
func (p *preparations) hideSecrets(task api.TaskRef, folder string, shown bool) {
	if !shown {
		return
	}
	err := p.views.concealSecrets(folder)
	if err == nil { // else the next start finds them by what is mounted there
		err = p.launcher.HideSecrets(folder)
	}
	if err != nil {
		p.log.Error().Err(err).Stringer("task", task).Msg("the files of a task's secrets stay until the agent's next start")
	}
}

// sweepSecrets removes the secret files of tasks that ended while there was no agent, or just before.
func (p *preparations) sweepSecrets(folder string, known map[string]bool) {
	if folder == "" {
		return
	}
	var shown error
	err := secrets.Sweep(folder, func(sandbox string) bool {
		if !known[sandbox] {
			shown = errors.Join(shown, p.views.concealSecrets(sandbox))
		}
		return known[sandbox]
	})
	if err = errors.Join(err, shown); err != nil {
		p.log.Error().Err(err).Msg("files of secrets of ended tasks are still in memory")
	}
}

// keepSecrets removes the values of secrets from the leader's events, before anybody else sees them, and keeps them.
func (p *preparations) keepSecrets(said core.LeaderSaid) core.LeaderSaid {
	for i, event := range said.Batch.Events {
		if sent, is := event.(protocol.TaskSecrets); is {
			said.Batch.Events[i] = p.secrets.Take(sent)
		}
	}
	return said
}

// launch returns what is sent to an executor with a task, including the values of secrets that are variables. The
// executor is shown the task's volumes and secrets.
func (p *preparations) launch(e core.HandOver) (out outgoing, err error) {
	out = outgoing{task: e.Task, shared: e.Launch.Shared, as: executor.AsOf(&e.Launch.Task), builtin: e.Launch.Task.Executor == nil}
	if out.builtin && e.Launch.Task.Image == "" { // other executors make the folder; an image's exists
		out.folder = e.Launch.Sandbox
	}
	if e.Launch.Secrets, err = p.secrets.Variables(e.Task.TaskRef, e.Launch.Task.Secrets); err != nil {
		return out, err
	}
	out.event = e.Launch
	return out, p.views.reveal(e)
}

// views control which parts of the agent's folder the frameworks' own executors see while they run. Executors that see
// all of the machine's files need nothing.
type views struct{ agent *Agent }

// reveal shows an executor the volumes and secrets of a task that it is about to be handed. The loop's goroutine only.
func (v views) reveal(e core.HandOver) error {
	a, launch := v.agent, e.Launch
	if launch.Task.Executor == nil || a.cells == nil {
		return nil
	}
	task, _ := a.core.Task(e.Task.TaskRef)
	folders := a.folder.volumeFolders(task.Volumes)
	if slices.ContainsFunc(launch.Task.Secrets, func(s api.Secret) bool { return s.File != "" }) {
		folders = append(folders, filepath.Join(launch.Sandbox, secrets.Folder))
	}
	if len(folders) == 0 { // so that nobody looks whether the executor still runs, which takes a file of the kernel
		return nil
	}
	return a.cells.Reveal(a.runs.around(launch.Sandbox), folders...)
}

// concealSecrets hides the files of a task's secrets from an executor to which they were revealed.
func (v views) concealSecrets(sandbox string) error {
	a := v.agent
	return a.cells.Conceal(a.runs.around(sandbox), filepath.Join(sandbox, secrets.Folder))
}

// concealVolumes hides volumes from an executor that needs them no more.
func (v views) concealVolumes(executor api.ExecutorRef, ids []api.VolumeID) {
	a := v.agent
	if len(ids) == 0 {
		return
	}
	if err := a.cells.Conceal(a.runs.living(executor), a.folder.volumeFolders(ids)...); err != nil {
		a.log.Error().Err(err).Stringer("executor", executor).Msg("an executor still has volumes of tasks that have ended")
	}
}

// sweepVolumes hides volumes from executors whose tasks ended just before the previous agent was killed.
func (v views) sweepVolumes() {
	for _, state := range v.agent.runs.all() {
		if state.run.Executor.Executor != api.CommandExecutor {
			v.concealVolumes(state.run.Executor, v.agent.core.UnneededVolumes(state.run.Executor))
		}
	}
}
