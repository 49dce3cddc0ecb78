// Package agent is the daemon of one node. It reports the node's resources to the leading master, starts executors and
// hands them tasks, keeps running tasks alive through its own restarts, and reports what became of them until that is
// acknowledged.
//
// Package core makes the decisions. This package owns the I/O: streams, disk, processes, clock. It has one inbox, one
// loop and one core.
//
// The environment of executors (R33) is PATH as configured, the variables that their command asks for, and
//
//	TENDER_EXECUTOR_SOCKET            the unix socket of the agent
//	TENDER_EXECUTOR_FRAMEWORK_ID      whose executor it is
//	TENDER_EXECUTOR_ID                its ID
//	TENDER_EXECUTOR_TOKEN_FD          the descriptor from which it reads its token
//	TENDER_EXECUTOR_SANDBOX           its folder, where it also starts
//	TENDER_EXECUTOR_CELL              (the built-in one) where its tasks have control groups
//	TENDER_EXECUTOR_RECOVERY_TIMEOUT  how long to wait for an agent that went away
package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"sync"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/agent/checkpoint"
	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/executor/process"
	"github.com/tenderhq/tender/agent/fetch"
	"github.com/tenderhq/tender/agent/life"
	"github.com/tenderhq/tender/agent/membership"
	"github.com/tenderhq/tender/agent/usage"
	"github.com/tenderhq/tender/agent/walls"
	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/agent/walls/paths"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/internal/version"
	"github.com/tenderhq/tender/internal/watchdog"
)

// Agent is one agent. Make it with New, then Run it, once.
type Agent struct {
	config    Config
	log       zerolog.Logger
	folder    *dataFolder   // what is on disk: lock, sandboxes, volumes
	cells     *walls.Cells  // control groups of executors and tasks; nil: the agent starts no processes itself
	listeners listeners     // the listeners, which stay open over all lives of the core
	inbox     *inbox        // the only way in to the loop
	core      *core.Core    // the loop's goroutine only
	round     watchdog.Loop // watches the rounds of the loop

	// context ends with the life of the present core.
	context context.Context //nolint:containedctx // effects start work that ends with the core
	// life is that of the present core. The loop's goroutine only.
	life *life.Life

	leader    leaderSession   // the stream to the master
	executors executorStreams // the streams of executors
	front     front           // what serves those who come by HTTP
	preparing preparations    // the fetching of files for tasks
	disk      *writer         // writes the checkpoint
	samples   sampling        // measures what is really used
	runs      runs            // the processes of executors
	metrics   metrics
	work      sync.WaitGroup // everything that Run has started and that has not ended
	ready     chan struct{}
}

// New checks the configuration; nothing is opened or started before Run.
func New(config Config) (*Agent, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, api.E("agent.config", api.Invalid, config.DataDir, err)
	}
	a := &Agent{config: config, log: config.Logger, inbox: newInbox(), ready: make(chan struct{})}
	a.folder = newDataFolder(config.DataDir, a.log)
	if a.config.Launcher == nil {
		a.config.Launcher = &process.Launcher{
			Users: a.users(),
			Below: a.folder.below, Trash: a.folder.at("trash"), Fetch: fetch.Fetcher{Cache: a.folder.at("cache"), Local: config.FetchLocal},
		}
	}
	a.folder.launcher = a.config.Launcher
	a.executors = newExecutorStreams()
	a.front.commands.Most, a.front.commands.Enter = config.ExecMax, config.Enter
	a.front.pictures = newPictures()
	a.preparing = newPreparations(a.config.Launcher, views{a}, a.log)
	a.samples.begin(config.Sampler)
	a.runs.processes = map[core.Run]*runState{}
	return a, nil
}

// Address returns where the HTTP listener is, or "" if Run has not opened it yet or there is none.
func (a *Agent) Address() string { return a.listeners.httpAddress() }

// Ready is closed when the agent has opened its listeners and begins to look for the leader.
func (a *Agent) Ready() <-chan struct{} { return a.ready }

// Run works until the context ends, and then returns nil, or until an error occurs that a person has to repair. When it
// returns, everything that it has started has ended, except executors. These wait for the next agent on the same
// folder.
func (a *Agent) Run(ctx context.Context) error {
	unlock, err := a.folder.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := a.checkUsers(); err != nil {
		return err
	}
	if err := a.openAll(); err != nil {
		return errors.Join(err, a.closeAll())
	}
	a.folder.member, err = membership.Prove(ctx, membership.Config{
		Folder: a.config.DataDir, Token: a.config.Token, Masters: a.config.Masters, Dial: a.config.Dial, Random: a.config.Random,
		Admitted: a.admitted, Logger: a.log,
	})
	if err != nil {
		return errors.Join(unlessStopped(ctx, err), a.closeAll())
	}
	for { // one life of a core for each turn; AgentGone ends one
		again, err := a.liveOnce(ctx)
		if err == nil && again {
			err = unlessStopped(ctx, a.folder.member.BeginAnew(ctx))
		}
		if err != nil || !again || ctx.Err() != nil {
			err = errors.Join(err, a.closeAll())
			a.log.Info().Msg("agent has ended")
			return err
		}
	}
}

// unlessStopped returns the error of an attempt to join. It returns nil if the agent was stopped meanwhile: it then
// joins at its next start.
func unlessStopped(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

// checkUsers returns why tasks can't run as the users that are configured.
func (a *Agent) checkUsers() error {
	if a.folder.path == "" {
		return nil
	}
	if err := a.users().Check(a.folder.path); err != nil {
		return api.E("agent.start", api.Invalid, a.config.TaskUser, err)
	}
	return nil
}

// admitted returns the ID of the agent in this folder. An agent that was never told its ID is named by its nonce.
func (a *Agent) admitted() (api.AgentID, error) {
	records, err := a.config.Store.Load()
	if err != nil {
		return "", err
	}
	who := core.New(a.coreConfig(), records).Identity()
	return cmp.Or(who.Agent, api.AgentID(who.Nonce)), nil
}

func (a *Agent) users() entry.Users {
	return entry.Users{Default: a.config.TaskUser, Allowed: a.config.TaskUsers}
}

// findWalls finds out what can isolate tasks here: control groups, and the users that tasks run as.
func (a *Agent) findWalls() walls.Found {
	found := a.cells.Found()
	for _, ability := range a.users().Abilities() {
		found.Add(ability)
	}
	if why := a.users().Lack(); why != "" && !found.Has(paths.Ability) {
		found.Lack(why)
	}
	return found
}

// openAll opens the audit log, the control groups and the listeners, and sets the checkpoint if none is configured.
func (a *Agent) openAll() error {
	if a.config.Store == nil {
		a.config.Store = checkpoint.NewDisk(checkpoint.Config{Folder: a.config.DataDir, BootID: a.config.BootID})
	}
	audit := a.front.visitors.OpenAudit(a.config.AuditLog, a.config.DataDir, a.log)
	if err := errors.Join(audit, a.openCells(), a.listeners.open(a.config, a.folder, a.welcomes)); err != nil {
		return err
	}
	if a.config.reachedNowhere() {
		a.log.Warn().Str("address", a.Address()).Msg(transport.HowToAdvertise)
	}
	if shortcomings != "" {
		a.log.Warn().Str("why", shortcomings).Msg("this system is for trying Tender out; run agents on Linux")
	}
	return nil
}

// openCells finds out what isolates tasks on this machine, and logs it once.
func (a *Agent) openCells() (err error) {
	launcher, is := a.config.Launcher.(*process.Launcher)
	if !is {
		return nil
	}
	if a.cells, err = walls.OpenCells(a.config.DataDir, a.config.Walls); err != nil {
		return api.E("agent.start", api.Unsupported, a.config.DataDir, err)
	}
	a.cells.OnRemoval(func(removed string) {
		a.log.Warn().Str("group", removed).Msg("somebody has removed control groups of this agent; they are made again")
	})
	launcher.Cells, launcher.Rlimits = a.cells, a.config.Walls.Rlimits
	if err := a.preparing.openImages(a); err != nil {
		return api.E("agent.start", api.Invalid, a.folder.at("images"), err)
	}
	if a.config.Sampler == nil {
		a.samples.sampler = usage.New(a.cells)
	}
	found := a.findWalls()
	a.log.Info().Stringer("isolation", &found).Msg("isolation of tasks on this machine")
	for _, why := range found.Lacks {
		a.log.Warn().Str("why", why).Msg("tasks are isolated less than they could be")
	}
	if why := a.cells.NoImages(); a.cells != nil && why != "" {
		a.log.Info().Str("why", why).Msg("tasks can't use images on this machine")
	}
	return nil
}

func (a *Agent) closeAll() error {
	err := errors.Join(a.listeners.close(), a.cells.Close(), a.front.visitors.CloseAudit())
	if a.config.Store != nil {
		err = errors.Join(err, a.config.Store.Close())
	}
	return err
}

// liveOnce runs one core until its life ends. again means that the agent was marked gone and begins anew.
func (a *Agent) liveOnce(ctx context.Context) (again bool, err error) {
	records, err := a.config.Store.Load()
	if err != nil {
		return false, err
	}
	a.tellRepairs()
	a.core = core.New(a.coreConfig(), records)
	ctx, cancel := context.WithCancel(ctx)
	a.context = ctx
	a.disk = newWriter(a.config.Store, a.inbox, a.folder, a.log, &a.metrics)
	a.inbox.fail(a.folder.sweepVolumes("", a.core.HasVolume))
	alive := a.findRuns()
	a.sweepCells(ctx)
	a.life = life.New(a.core, shell{a})
	a.life.Begin(core.Started{BootID: a.config.BootID, Nonce: a.folder.member.Nonce(), Alive: alive}, func() {
		a.rememberHeld()
		a.preparing.rememberImages(a.core)
		a.preparing.sweepSecrets(a.folder.path, a.core.SecretFolders())
		a.preparing.views.sweepVolumes()
		a.folder.sweep(a.core.Folders())
	})
	if !a.life.Over() {
		a.startServing(ctx)
		err = a.runLoop(ctx)
	}
	cancel()
	a.work.Wait()
	a.closeLinks()
	if a.config.RecoveryTimeout < 0 {
		a.clearExecutors()
	}
	if a.life.Over() && err == nil {
		a.inbox.fail(a.folder.sweepVolumes(a.core.Identity().Agent, func(api.VolumeID) bool { return false }))
		err = a.config.Store.Reset()
	}
	return a.life.Over(), err
}

// tellRepairs logs what the checkpoint had to repair when it was read.
func (a *Agent) tellRepairs() {
	if disk, is := a.config.Store.(*checkpoint.Disk); is && disk.Repaired() != "" {
		a.log.Warn().Str("what", disk.Repaired()).Msg("checkpoint repaired")
	}
}

// startServing starts everything that brings events to the loop.
func (a *Agent) startServing(ctx context.Context) {
	a.startWork(func() { a.disk.run(ctx) })
	a.startWork(func() { a.serveExecutors(ctx) })
	a.startWork(func() { a.serveHTTP(ctx) })
	a.startWork(func() { a.seekLeader(ctx) })
	a.startWork(func() { a.watchLoop(ctx) })
	a.startWork(func() { a.folder.member.Keep(ctx) })
	a.startWork(func() { a.samples.run(ctx, a.inbox) })
	a.startWork(func() { a.folder.emptyTrash(ctx) })
	a.startWork(func() { a.keepWithinBounds(ctx) })
	a.startWork(func() {
		a.cells.ShrinkByAndBy(ctx, func(err error) { a.log.Warn().Err(err).Msg("control groups of executors were not reduced") })
	})
	for _, run := range a.runs.all() {
		a.startWork(func() { a.awaitRun(ctx, run) })
	}
	select {
	case <-a.ready:
	default:
		close(a.ready)
	}
}

func (a *Agent) startWork(run func()) {
	a.work.Add(1)
	go func() {
		defer a.work.Done()
		run()
	}()
}

func (a *Agent) coreConfig() core.Config {
	c := a.config
	if a.cells != nil {
		found := a.findWalls()
		c.Attributes = maps.Clone(c.Attributes)
		if c.Attributes == nil {
			c.Attributes = map[string]string{}
		}
		c.Attributes[walls.Attribute] = found.String()
	}
	gpus, _ := c.Walls.GPUIDs(c.Resources) // an error was reported when the agent was made
	return core.Config{
		GPUs: gpus,
		Agent: api.Agent{
			Hostname: c.Hostname, Resources: c.Resources, Attributes: c.Attributes, Region: c.Region, Zone: c.Zone,
			Address: a.Address(), Version: version.String(),
		},
		Version: version.String(), Sandboxes: a.folder.at("sandboxes"), RecoveryTimeout: c.RecoveryTimeout,
		TaskUser: c.TaskUser, TaskUsers: c.TaskUsers, NoImages: a.cells.NoImages(),
		ExecutorTimeout: c.ExecutorTimeout, ExecutorIdle: c.ExecutorIdle, SandboxAge: c.SandboxAge, StubsMax: c.SandboxesMax,
		SandboxBytesMax: c.SandboxBytesMax,
	}
}

func random() string { return rand.Text() }
