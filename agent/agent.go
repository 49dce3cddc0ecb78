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
	"errors"
	"maps"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/agent/checkpoint"
	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/executor/process"
	"github.com/tenderhq/tender/agent/fetch"
	"github.com/tenderhq/tender/agent/life"
	"github.com/tenderhq/tender/agent/membership"
	"github.com/tenderhq/tender/agent/usage"
	"github.com/tenderhq/tender/agent/walls"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/strangers"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/internal/version"
	"github.com/tenderhq/tender/internal/watchdog"
)

// Agent is one agent. Make it with New, then Run it, once. It knows all rooms, and its loop goes from one to the other; a
// room holds those that it calls, and none calls back.
type Agent struct {
	config  *Config
	log     zerolog.Logger
	inbox   *inbox         // the only way in to the loop
	round   *watchdog.Loop // watches the rounds of the loop
	metrics *metrics
	ready   chan struct{}

	folder    *dataFolder // what is on disk: lock, sandboxes, volumes
	walls     *isolation
	now       *lifetime
	listeners *listeners // they stay open over all lives of the core
	runs      *runs
	preparing *preparations
	leader    *leaderSession
	executors *executorStreams
	samples   *sampling // measures what is really used
	front     *front
}

// New checks the configuration; nothing is opened or started before Run.
func New(config Config) (*Agent, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, api.E("agent.config", api.Invalid, config.DataDir, err)
	}
	return build(&config), nil
}

// build makes the rooms, each on those that it calls.
func build(config *Config) *Agent {
	a := &Agent{
		config: config, log: config.Logger, inbox: newInbox(), round: &watchdog.Loop{}, metrics: &metrics{}, ready: make(chan struct{}),
		folder: newDataFolder(config.DataDir, config.Logger), now: &lifetime{}, listeners: &listeners{}, samples: &sampling{},
	}
	a.walls = &isolation{config: config, folder: a.folder}
	if config.Launcher == nil {
		config.Launcher = &process.Launcher{
			Users: a.walls.users(),
			Below: a.folder.below, Trash: a.folder.at("trash"), Fetch: fetch.Fetcher{Cache: a.folder.at("cache"), Local: config.FetchLocal},
		}
	}
	a.folder.launcher = config.Launcher
	fetching := make(fetchLine, fetchesMax)
	a.runs = &runs{
		config: config, log: a.log, folder: a.folder, inbox: a.inbox, now: a.now, walls: a.walls, listeners: a.listeners,
		fetching: fetching, processes: map[core.Run]*runState{},
	}
	a.preparing = &preparations{
		config: config, log: a.log, folder: a.folder, inbox: a.inbox, now: a.now, walls: a.walls, fetching: fetching,
		views: &views{log: a.log, folder: a.folder, now: a.now, walls: a.walls, runs: a.runs}, tasks: map[api.TaskRef]*preparation{},
	}
	a.executors = &executorStreams{
		config: config, log: a.log, folder: a.folder, inbox: a.inbox, metrics: a.metrics, now: a.now, walls: a.walls,
		listeners: a.listeners, runs: a.runs, links: map[core.Conn]*executorLink{}, strangers: strangers.New(strangersMax),
		reading: make(chan struct{}, executorReadsMax), telling: newCommonRoom(executorsBytesMax),
	}
	a.samples.begin(config.Sampler)
	a.front = &front{
		config: config, log: a.log, folder: a.folder, inbox: a.inbox, metrics: a.metrics, walls: a.walls, listeners: a.listeners,
		preparing: a.preparing, samples: a.samples, round: a.round, pictures: make(pictures, picturesMax),
	}
	a.front.commands.Most, a.front.commands.Enter = config.ExecMax, config.Enter
	a.leader = &leaderSession{
		config: config, log: a.log, folder: a.folder, inbox: a.inbox, metrics: a.metrics, visitors: &a.front.visitors, round: a.round,
	}
	return a
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
	if err := a.walls.checkUsers(); err != nil {
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

// admitted returns the ID of the agent in this folder. An agent that was never told its ID is named by its nonce.
func (a *Agent) admitted() (api.AgentID, error) {
	records, err := a.config.Store.Load()
	if err != nil {
		return "", err
	}
	who := core.New(a.coreConfig(), records).Identity()
	return cmp.Or(who.Agent, api.AgentID(who.Nonce)), nil
}

// openAll opens the audit log, the control groups and the listeners, and sets the checkpoint if none is configured.
func (a *Agent) openAll() error {
	if a.config.Store == nil {
		a.config.Store = checkpoint.NewDisk(checkpoint.Config{Folder: a.config.DataDir, BootID: a.config.BootID})
	}
	audit := a.front.visitors.OpenAudit(a.config.AuditLog, a.config.DataDir, a.log)
	if err := errors.Join(audit, a.openCells(), a.listeners.open(*a.config, a.folder, a.runs.welcomes)); err != nil {
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
	if a.walls.cells, err = walls.OpenCells(a.config.DataDir, a.config.Walls); err != nil {
		return api.E("agent.start", api.Unsupported, a.config.DataDir, err)
	}
	a.walls.cells.OnRemoval(func(removed string) {
		a.log.Warn().Str("group", removed).Msg("somebody has removed control groups of this agent; they are made again")
	})
	launcher.Cells, launcher.Rlimits = a.walls.cells, a.config.Walls.Rlimits
	if err := a.preparing.openImages(); err != nil {
		return api.E("agent.start", api.Invalid, a.folder.at("images"), err)
	}
	if a.config.Sampler == nil {
		a.samples.sampler = usage.New(a.walls.cells.Measure)
	}
	found := a.walls.findWalls()
	a.log.Info().Stringer("isolation", &found).Msg("isolation of tasks on this machine")
	for _, why := range found.Lacks {
		a.log.Warn().Str("why", why).Msg("tasks are isolated less than they could be")
	}
	if why := a.walls.cells.NoImages(); a.walls.cells != nil && why != "" {
		a.log.Info().Str("why", why).Msg("tasks can't use images on this machine")
	}
	return nil
}

func (a *Agent) closeAll() error {
	err := errors.Join(a.listeners.close(), a.walls.cells.Close(), a.front.visitors.CloseAudit())
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
	a.now.core = core.New(a.coreConfig(), records)
	ctx, cancel := context.WithCancel(ctx)
	a.now.context = ctx
	a.now.disk = newWriter(a.config.Store, a.inbox, a.folder, a.log, a.metrics)
	a.inbox.fail(a.folder.sweepVolumes("", a.now.core.HasVolume))
	alive := a.runs.find()
	a.runs.sweepCells(ctx)
	a.now.life = life.New(a.now.core, shell{a})
	a.now.life.Begin(core.Started{BootID: a.config.BootID, Nonce: a.folder.member.Nonce(), Alive: alive}, func() {
		a.runs.rememberHeld()
		a.preparing.rememberImages(a.now.core)
		a.preparing.sweepSecrets(a.folder.path, a.now.core.SecretFolders())
		a.preparing.views.sweepVolumes()
		a.folder.sweep(a.now.core.Folders())
	})
	if !a.now.life.Over() {
		a.startServing(ctx)
		err = a.runLoop(ctx)
	}
	cancel()
	a.now.running.Wait()
	a.closeLinks()
	if a.config.RecoveryTimeout < 0 {
		a.runs.clear()
	}
	if a.now.life.Over() && err == nil {
		a.inbox.fail(a.folder.sweepVolumes(a.now.core.Identity().Agent, func(api.VolumeID) bool { return false }))
		err = a.config.Store.Reset()
	}
	return a.now.life.Over(), err
}

// tellRepairs logs what the checkpoint had to repair when it was read.
func (a *Agent) tellRepairs() {
	if disk, is := a.config.Store.(*checkpoint.Disk); is && disk.Repaired() != "" {
		a.log.Warn().Str("what", disk.Repaired()).Msg("checkpoint repaired")
	}
}

// startServing starts everything that brings events to the loop.
func (a *Agent) startServing(ctx context.Context) {
	a.now.start(func() { a.now.disk.run(ctx) })
	a.now.start(func() { a.executors.serve(ctx) })
	a.now.start(func() { a.front.serve(ctx) })
	a.now.start(func() { a.leader.seek(ctx) })
	a.now.start(func() { a.watchLoop(ctx) })
	a.now.start(func() { a.folder.member.Keep(ctx) })
	a.now.start(func() { a.samples.run(ctx, a.inbox) })
	a.now.start(func() { a.folder.emptyTrash(ctx) })
	a.now.start(func() { a.keepWithinBounds(ctx) })
	a.now.start(func() {
		a.walls.cells.ShrinkByAndBy(ctx, func(err error) { a.log.Warn().Err(err).Msg("control groups of executors were not reduced") })
	})
	for _, run := range a.runs.all() {
		a.now.start(func() { a.runs.await(ctx, run) })
	}
	select {
	case <-a.ready:
	default:
		close(a.ready)
	}
}

func (a *Agent) coreConfig() core.Config {
	c := a.config
	if a.walls.cells != nil {
		found := a.walls.findWalls()
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
		TaskUser: c.TaskUser, TaskUsers: c.TaskUsers, NoImages: a.walls.cells.NoImages(),
		ExecutorTimeout: c.ExecutorTimeout, ExecutorIdle: c.ExecutorIdle, SandboxAge: c.SandboxAge, StubsMax: c.SandboxesMax,
		SandboxBytesMax: c.SandboxBytesMax,
	}
}
