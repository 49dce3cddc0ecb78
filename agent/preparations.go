package agent

import (
	"context"
	"errors"
	"path/filepath"
	"slices"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/executor"
	"github.com/tenderhq/tender/agent/images"
	"github.com/tenderhq/tender/agent/images/setup"
	"github.com/tenderhq/tender/agent/secrets"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// fetchesMax is how many tasks and executors get their files at the same time. More wait, so that
// however many are launched, disk and network are shared by a few (R34).
const fetchesMax = 16

// preparations are the fetches of files for tasks and executors.
type preparations struct {
	images *images.Store                      // nil: no task runs in an image
	places chan struct{}                      // holds one for each fetch that is under way
	tasks  map[api.TaskRef]context.CancelFunc // the loop's only
	// secrets are those of tasks that are about to start; the loop's only.
	secrets  secrets.Box
	launcher executor.Launcher
	views    views
	log      zerolog.Logger
}

func newPreparations(launcher executor.Launcher, views views, log zerolog.Logger) preparations {
	return preparations{
		places: make(chan struct{}, fetchesMax), tasks: map[api.TaskRef]context.CancelFunc{}, launcher: launcher, views: views, log: log,
	}
}

// enter waits until the files may be fetched, at once when there are none, and returns what is to
// be called at the end; nil when the context has ended first.
func (p *preparations) enter(ctx context.Context, uris []api.URI) (leave func()) {
	if len(uris) == 0 {
		return func() {}
	}
	return p.enterLine(ctx)
}

// enterLine waits until something may be fetched, such as an image, and returns what is to be called at the end; nil when
// the context has ended first.
func (p *preparations) enterLine(ctx context.Context) (leave func()) {
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

// prepareTask brings a task its volumes, files and image. Nobody waits for them any more when the task has ended
// first, by a kill or with its executor: then preparations.stop ends the fetch.
func (a *Agent) prepareTask(e core.PrepareTask) {
	files, missing := a.preparing.secrets.Files(e.Task, e.Secrets)
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
		if err == nil && e.Image != "" {
			done.Image, err = a.pullImage(ctx, e)
		}
		if err == nil && len(e.Secrets) > 0 {
			err = a.preparing.showSecrets(e.Sandbox, files, missing)
		}
		if ctx.Err() != nil {
			a.preparing.images.Release(e.Task)
			a.preparing.hideSecrets(e.Task, e.Sandbox, len(files) > 0)
			return
		}
		if err != nil {
			done.Reason, done.Message = executor.Reason(err), err.Error()
		}
		if hidden := (noSecrets{}); errors.As(err, &hidden) {
			done.Reason = api.ReasonSecretUnavailable
		}
		a.inbox.postEvent(a.context, done)
	})
}

// pullImage brings a task its image. Its sandbox is there, and may be another user's afterwards: the image's. Then the
// task's volumes are that user's too.
func (a *Agent) pullImage(ctx context.Context, e core.PrepareTask) (pinned string, err error) {
	if a.preparing.images == nil { // of a cluster in memory
		return e.Image, nil
	}
	leave := a.preparing.enterLine(ctx)
	if leave == nil {
		return "", ctx.Err()
	}
	defer leave()
	pinned, err = a.preparing.images.Prepare(ctx, images.Wish{
		Task: e.Task, Reference: e.Image, Sandbox: a.folder.below.At(e.Sandbox), UserAsked: e.User != "", Copied: a.cells.CopyImages(),
	})
	if err != nil {
		return "", &executor.FetchError{Err: err}
	}
	return pinned, a.folder.showVolumes(e.Sandbox, e.Volumes)
}

// openImages finds the images that an agent keeps.
func (p *preparations) openImages(a *Agent) (err error) {
	if a.cells.NoImages() != "" {
		return nil
	}
	config := a.config.Images
	config.Folder, config.Local = a.folder.at("images"), a.config.FetchLocal
	p.images, err = images.Open(config)
	return err
}

// giveUpImages deletes images that no task uses: the disk has little room.
func (p *preparations) giveUpImages() {
	if err := p.images.GiveUp(); err != nil {
		p.log.Error().Err(err).Msg("an image that no task uses was not deleted")
	}
}

// rememberImages notes which images tasks use that have outlived the agent before this one.
func (p *preparations) rememberImages(tasks *core.Core) {
	p.images.ReleaseAll()
	for _, task := range tasks.Imaged() {
		if says, err := setup.Read(task.Folder); err == nil { // else it is pulled anew, if the task has not started
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

// noSecrets is why a task can't be given its secrets.
type noSecrets struct{ error }

// showSecrets puts the files of a task's secrets into its folder, unless some are missing.
func (p *preparations) showSecrets(folder string, files map[string]protocol.Hidden, missing error) error {
	if missing == nil {
		missing = p.launcher.ShowSecrets(folder, files)
	}
	if missing != nil {
		return noSecrets{missing}
	}
	return nil
}

// dropSecrets forgets the values for a task, and takes the files of them from its folder if it names one.
func (p *preparations) dropSecrets(task api.TaskRef, folder string) {
	p.secrets.Drop(task)
	p.hideSecrets(task, folder, folder != "")
}

// hideSecrets takes the files of a task's secrets away, if there are any.
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

// sweepSecrets takes away those of tasks that have ended while there was no agent, or just before that.
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
		p.log.Error().Err(err).Msg("files of secrets of tasks that have ended stay in memory")
	}
}

// keepSecrets takes the values out of what the leader says, before anybody else sees it.
func (p *preparations) keepSecrets(said core.LeaderSaid) core.LeaderSaid {
	for i, event := range said.Batch.Events {
		if sent, is := event.(protocol.TaskSecrets); is {
			said.Batch.Events[i] = p.secrets.Take(sent)
		}
	}
	return said
}

// launch is what goes to an executor with a task, with the values of those secrets that are variables, or why it can't.
// The executor is shown what belongs to the task.
func (p *preparations) launch(e core.HandOver) (out outgoing, reason api.Reason, err error) {
	out = outgoing{task: e.Task, shared: e.Launch.Shared, user: e.Launch.Task.RunsAs(), builtin: e.Launch.Task.Executor == nil}
	if out.builtin && e.Launch.Task.Image == "" { // commands need a folder; others make theirs, and images have it already
		out.folder = e.Launch.Sandbox
	}
	if e.Launch.Secrets, err = p.secrets.Variables(e.Task, e.Launch.Task.Secrets); err != nil {
		return out, api.ReasonSecretUnavailable, err
	}
	out.event = e.Launch
	return out, api.ReasonLaunchFailed, p.views.reveal(e)
}

// views are what executors of frameworks' own are shown of the agent's folder while they run; those that see all of the
// machine's files need nothing.
type views struct{ agent *Agent }

// reveal shows an executor what came with a task that it is about to be handed: its volumes, and its secrets. It is the
// loop's only.
func (v views) reveal(e core.HandOver) error {
	a, launch := v.agent, e.Launch
	if launch.Task.Executor == nil || a.cells == nil {
		return nil
	}
	task, _ := a.core.Task(e.Task)
	folders := a.folder.volumeFolders(task.Volumes)
	if slices.ContainsFunc(launch.Task.Secrets, func(s api.Secret) bool { return s.File != "" }) {
		folders = append(folders, filepath.Join(launch.Sandbox, secrets.Folder))
	}
	return a.cells.Reveal(a.runs.around(launch.Sandbox), folders...)
}

// concealSecrets takes the files of a task's secrets from an executor to which they were revealed.
func (v views) concealSecrets(sandbox string) error {
	a := v.agent
	return a.cells.Conceal(a.runs.around(sandbox), filepath.Join(sandbox, secrets.Folder))
}

// concealVolumes takes volumes from an executor that needs them no more.
func (v views) concealVolumes(executor api.ExecutorRef, ids []api.VolumeID) {
	a := v.agent
	if len(ids) == 0 {
		return
	}
	if err := a.cells.Conceal(a.runs.living(executor), a.folder.volumeFolders(ids)...); err != nil {
		a.log.Error().Err(err).Stringer("executor", executor).Msg("it goes on to see volumes of tasks that have ended")
	}
}

// sweepVolumes takes those from executors whose tasks ended just before their agent was killed.
func (v views) sweepVolumes() {
	for _, state := range v.agent.runs.all() {
		if state.run.Executor.Executor != api.CommandExecutor {
			v.concealVolumes(state.run.Executor, v.agent.core.UnneededVolumes(state.run.Executor))
		}
	}
}
