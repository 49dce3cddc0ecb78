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

// fetchLine lets a few fetch at the same time; it holds one element for each that does.
type fetchLine chan struct{}

// preparations fetch files, images and secrets for tasks.
type preparations struct {
	config   *Config
	log      zerolog.Logger
	folder   *dataFolder
	inbox    *inbox
	now      *lifetime
	walls    *isolation
	views    *views
	fetching fetchLine

	images *images.Store // nil: no task runs in an image
	mu     sync.Mutex
	tasks  map[api.TaskRef]*preparation // those that are not over; guarded by mu
	// secrets holds those of tasks that are about to start; the loop's goroutine only.
	secrets secrets.Box
}

// preparation is what is being made ready for one launch of a task.
type preparation struct {
	cancel context.CancelFunc
	over   chan struct{} // closed when nothing more is done for it
}

// enter waits until the files may be fetched; if there are none it does not wait. It returns a function to call at the
// end, or nil if the context has ended first.
func (l fetchLine) enter(ctx context.Context, uris []api.URI) (leave func()) {
	if len(uris) == 0 {
		return func() {}
	}
	return l.enterLine(ctx)
}

// enterLine waits until something, such as an image, may be fetched. It returns a function to call at the end, or nil
// if the context has ended first.
func (l fetchLine) enterLine(ctx context.Context) (leave func()) {
	select {
	case l <- struct{}{}:
		return func() { <-l }
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

func (p *preparations) end(task api.TaskRef, mine *preparation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tasks[task] == mine {
		delete(p.tasks, task)
	}
	mine.cancel()
	close(mine.over)
}

// stop cancels what is being made ready for a task, if anything is.
func (p *preparations) stop(task api.TaskRef) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if under := p.tasks[task]; under != nil {
		under.cancel()
	}
}

// prepareTask gives a task its volumes, files and image. If the task ends first, by a kill or with its executor,
// preparations.stop cancels that.
func (p *preparations) prepareTask(e core.PrepareTask) {
	task := e.Task.TaskRef
	files, missing := p.secrets.Files(task, e.Secrets)
	ctx, cancel := context.WithCancel(p.now.context)
	mine, former := p.begin(task, cancel)
	p.now.start(func() {
		defer p.end(task, mine)
		if former != nil {
			<-former.over // it was cancelled, and may still take back what it has made
		}
		done := core.TaskPrepared{Task: e.Task}
		place := executor.TaskPlace(e.Sandbox, e.Builtin, executor.As{User: e.User, Owner: e.Owner})
		place.DiskMax = e.DiskMax
		err := p.folder.prepareVolumes(ctx, place, e.Volumes)
		if err == nil {
			err = p.fetchFiles(ctx, place, e.URIs)
		}
		if err == nil && e.Image != "" {
			done.Image, err = p.pullImage(ctx, e)
		}
		if err == nil && len(e.Secrets) > 0 {
			err = p.showSecrets(e.Sandbox, files, missing)
		}
		if err == nil { // last, so that little time is left in which somebody else may take them
			err = p.config.Launcher.TryPorts(e.Ports)
		}
		if ctx.Err() != nil {
			p.images.Release(task)
			p.hideSecrets(task, e.Sandbox, len(files) > 0)
			return
		}
		if err != nil {
			done.Reason, done.Message = executor.Reason(err), err.Error()
		}
		p.inbox.postEvent(p.now.context, done)
	})
}

// pullImage gives a task its image. The sandbox exists already, and may belong to another user afterwards: the one that
// the image names. The task's volumes then belong to that user too.
func (p *preparations) pullImage(ctx context.Context, e core.PrepareTask) (pinned string, err error) {
	if p.images == nil { // a cluster in memory has no images
		return e.Image, nil
	}
	leave := p.fetching.enterLine(ctx)
	if leave == nil {
		return "", ctx.Err()
	}
	defer leave()
	pinned, err = p.images.Prepare(ctx, images.Wish{
		Task: e.Task.TaskRef, Reference: e.Image, Sandbox: p.folder.below.At(e.Sandbox), UserAsked: e.User != "", Copied: p.walls.cells.CopyImages(),
	})
	if err != nil {
		return "", &executor.FetchError{Err: err, Away: fetch.IsAway(err) || api.Is(err, api.Unavailable)}
	}
	return pinned, p.folder.showVolumes(e.Sandbox, e.Volumes)
}

// openImages opens the store of the images that an agent keeps.
func (p *preparations) openImages() (err error) {
	if p.walls.cells.NoImages() != "" {
		return nil
	}
	config := p.config.Images
	config.Folder, config.Local = p.folder.at("images"), p.config.FetchLocal
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

func (p *preparations) fetchFiles(ctx context.Context, place executor.Place, uris []api.URI) error {
	leave := p.fetching.enter(ctx, uris)
	if leave == nil {
		return ctx.Err()
	}
	defer leave()
	return p.config.Launcher.Prepare(ctx, place, uris)
}

// showSecrets writes the files of a task's secrets into its folder, unless some are missing.
func (p *preparations) showSecrets(folder string, files map[string]protocol.Hidden, missing error) error {
	if missing != nil {
		return missing
	}
	return p.config.Launcher.ShowSecrets(folder, files)
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
		err = p.config.Launcher.HideSecrets(folder)
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
type views struct {
	log    zerolog.Logger
	folder *dataFolder
	now    *lifetime
	walls  *isolation
	runs   *runs
}

// reveal shows an executor the volumes and secrets of a task that it is about to be handed. The loop's goroutine only.
func (v *views) reveal(e core.HandOver) error {
	launch := e.Launch
	if launch.Task.Executor == nil || v.walls.cells == nil {
		return nil
	}
	task, _ := v.now.core.Task(e.Task.TaskRef)
	folders := v.folder.volumeFolders(task.Volumes)
	if slices.ContainsFunc(launch.Task.Secrets, func(s api.Secret) bool { return s.File != "" }) {
		folders = append(folders, filepath.Join(launch.Sandbox, secrets.Folder))
	}
	if len(folders) == 0 { // so that nobody looks whether the executor still runs, which takes a file of the kernel
		return nil
	}
	return v.walls.cells.Reveal(v.runs.around(launch.Sandbox), folders...)
}

// concealSecrets hides the files of a task's secrets from an executor to which they were revealed.
func (v *views) concealSecrets(sandbox string) error {
	return v.walls.cells.Conceal(v.runs.around(sandbox), filepath.Join(sandbox, secrets.Folder))
}

// concealVolumes hides volumes from an executor that needs them no more.
func (v *views) concealVolumes(executor api.ExecutorRef, ids []api.VolumeID) {
	if len(ids) == 0 {
		return
	}
	if err := v.walls.cells.Conceal(v.runs.living(executor), v.folder.volumeFolders(ids)...); err != nil {
		v.log.Error().Err(err).Stringer("executor", executor).Msg("an executor still has volumes of tasks that have ended")
	}
}

// sweepVolumes hides volumes from executors whose tasks ended just before the previous agent was killed.
func (v *views) sweepVolumes() {
	for _, state := range v.runs.all() {
		if state.run.Executor.Executor != api.CommandExecutor {
			v.concealVolumes(state.run.Executor, v.now.core.UnneededVolumes(state.run.Executor))
		}
	}
}
