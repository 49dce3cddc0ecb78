// Package agent is the daemon of one node: it reports the node's resources to the
// leading master, starts executors and hands them tasks, keeps what runs alive through
// its own restarts, and tells what became of it until that is acknowledged.
//
// The decisions are package core's; this package owns the world around it: streams,
// disk, processes, clock. It has one inbox, one loop and one core.
//
// What executors get in their environment (R33): PATH as configured, what their command
// asks for, and
//
//	TENDER_EXECUTOR_SOCKET            the unix socket of the agent
//	TENDER_EXECUTOR_FRAMEWORK_ID      whose executor it is
//	TENDER_EXECUTOR_ID                its ID
//	TENDER_EXECUTOR_TOKEN_FD          the descriptor from which it reads its token
//	TENDER_EXECUTOR_SANDBOX           its folder, where it also starts
//	TENDER_EXECUTOR_RECOVERY_TIMEOUT  how long to wait for an agent that went away
package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/agent/checkpoint"
	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/executor"
	"github.com/tenderhq/tender/agent/executor/process"
	"github.com/tenderhq/tender/agent/fetch"
	"github.com/tenderhq/tender/agent/tail"
	"github.com/tenderhq/tender/agent/usage"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/version"
	"github.com/tenderhq/tender/internal/watchdog"
)

// Agent is one agent. Make it with New, then Run it, once.
type Agent struct {
	config   Config
	log      zerolog.Logger
	store    checkpoint.Store
	launcher executor.Launcher
	sampler  usage.Sampler
	http     *sharedListener // nil = none
	sockets  *sharedListener // for executors
	socket   string          // its path

	inbox chan item // the only way in; bounded: whoever is faster than the loop waits
	asks  chan func(*core.Core)
	core  *core.Core // the loop's only
	round watchdog.Loop
	link  atomic.Pointer[leaderLink] // the session's; nil between two

	// context is that of the present core's life: it ends with it.
	context context.Context //nolint:containedctx // effects start work that ends with the core

	// The loop's only.
	leader    *leaderLink
	executors map[core.Conn]*executorLink
	strangers strangers     // streams whose executor is not known yet
	reading   chan struct{} // holds one for each message of executors that is read and waits for the loop
	telling   *commonRoom   // for what waits for all executors
	readers   map[api.TaskRef][]*reader
	preparing map[api.TaskRef]context.CancelFunc // of the files that come for a task

	followed   tail.Watcher // outputs of tasks
	conns      atomic.Uint64
	registered atomic.Bool // with some master, ever
	// sessionTimeout is what the leader has told last, a time.Duration; 0: none has.
	sessionTimeout atomic.Int64
	disk           *writer
	fetching       chan struct{} // holds one for each fetch that is under way
	trash          *outbox[string]
	samples        chan []core.Target
	runs           runs
	metrics        metrics
	work           sync.WaitGroup // everything that Run has started
	failed         chan error     // the first thing that can't be mended; capacity 1
	ready          chan struct{}
	address        atomic.Value // string: of the HTTP listener
}

// item is something that happened, and the stream that it brings along or takes away.
type item struct {
	what     core.Happening
	leader   *leaderLink
	executor *executorLink
	taken    chan struct{} // told when the loop takes the item, if it is set; capacity 1
}

// inboxItemsMax: beyond it, readers of streams wait, and with them those who write.
const inboxItemsMax = 4096

// New checks the configuration; nothing is opened or started before Run.
func New(config Config) (*Agent, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, api.E("agent.config", api.Invalid, config.DataDir, err)
	}
	a := &Agent{
		config:    config,
		log:       config.Logger,
		store:     config.Store,
		launcher:  config.Launcher,
		sampler:   config.Sampler,
		inbox:     make(chan item, inboxItemsMax),
		asks:      make(chan func(*core.Core)),
		executors: map[core.Conn]*executorLink{},
		readers:   map[api.TaskRef][]*reader{},
		preparing: map[api.TaskRef]context.CancelFunc{},
		fetching:  make(chan struct{}, fetchesMax),
		reading:   make(chan struct{}, executorReadsMax),
		telling:   newCommonRoom(executorsBytesMax),
		trash:     newOutbox(outboxLimits{items: trashItemsMax}, func(string) int { return 0 }),
		samples:   make(chan []core.Target, 1),
		failed:    make(chan error, 1),
		ready:     make(chan struct{}),
	}
	a.runs.processes = map[core.Run]*runState{}
	if a.sampler == nil {
		a.sampler = usage.New()
	}
	if a.launcher == nil {
		a.launcher = &process.Launcher{Trash: a.path("trash"), Fetch: fetch.Fetcher{Cache: a.path("cache")}}
	}
	return a, nil
}

// Address is where the HTTP listener is, "" before Run has opened it or when there is none.
func (a *Agent) Address() string {
	address, _ := a.address.Load().(string)
	return address
}

// Ready is closed when the agent has opened its listeners and looks for the leader.
func (a *Agent) Ready() <-chan struct{} { return a.ready }

// Run works until the context ends (then it returns nil) or until something is wrong
// that a person has to mend. When it returns, all that it has started has ended, but
// executors, which wait for the next agent on the same folder.
func (a *Agent) Run(ctx context.Context) error {
	unlock, err := a.lockFolder()
	if err != nil {
		return err
	}
	defer unlock()
	if err := a.open(); err != nil {
		return errors.Join(err, a.close())
	}
	for { // a new life for each AgentGone
		again, err := a.live(ctx)
		if err != nil || !again {
			return errors.Join(err, a.close())
		}
	}
}

// open takes the checkpoint and the listeners.
func (a *Agent) open() error {
	if err := a.openFolder(); err != nil {
		return err
	}
	if err := a.listen(); err != nil {
		return err
	}
	if shortcomings != "" {
		a.log.Warn().Str("why", shortcomings).Msg("this system is for trying Tender out; run agents on Linux")
	}
	if a.http != nil {
		a.address.Store(a.config.address(a.http.Addr()))
	}
	return nil
}

func (a *Agent) close() error {
	err := errors.Join(a.http.close(), a.sockets.close())
	if a.store != nil {
		err = errors.Join(err, a.store.Close())
	}
	return err
}

// live runs one core to its end. again: the agent was marked gone and begins anew.
func (a *Agent) live(ctx context.Context) (again bool, err error) {
	records, err := a.store.Load()
	if err != nil {
		return false, err
	}
	a.tellRepairs()
	a.core = core.New(a.coreConfig(), records)
	ctx, cancel := context.WithCancel(ctx)
	a.context = ctx
	a.disk = newWriter(a.store)
	a.sweepVolumes("", a.core.HasVolume)
	alive := a.findRuns()
	a.perform(a.core.Step(core.Event{At: time.Now(), What: core.Started{
		BootID: a.config.BootID, Nonce: api.Nonce(a.config.Random()), Alive: alive,
	}}))
	a.sweepFolders()
	a.serve(ctx)
	again, err = a.loop(ctx)
	cancel()
	a.work.Wait()
	a.closeLinks()
	if a.config.RecoveryTimeout < 0 {
		a.clearExecutors()
	}
	if again && err == nil {
		a.sweepVolumes(a.core.Identity().Agent, func(api.VolumeID) bool { return false })
		err = a.store.Reset()
	}
	return again, err
}

// serve starts everything that feeds the loop.
func (a *Agent) serve(ctx context.Context) {
	a.start(func() { a.runWriter(ctx) })
	a.start(func() { a.serveExecutors(ctx) })
	a.start(func() { a.serveHTTP(ctx) })
	a.start(func() { a.seekLeader(ctx) })
	a.start(func() { a.watchLoop(ctx) })
	a.start(func() { a.takeSamples(ctx) })
	a.start(func() { a.emptyTrash(ctx) })
	for _, run := range a.runs.all() {
		a.start(func() { a.await(ctx, run) })
	}
	select {
	case <-a.ready:
	default:
		close(a.ready)
	}
}

func (a *Agent) start(run func()) {
	a.work.Add(1)
	go func() {
		defer a.work.Done()
		run()
	}()
}

func (a *Agent) coreConfig() core.Config {
	c := a.config
	return core.Config{
		Agent: api.Agent{
			Hostname: c.Hostname, Resources: c.Resources, Attributes: c.Attributes, Region: c.Region, Zone: c.Zone,
			Address: a.Address(), Version: version.String(),
		},
		Version: version.String(), Sandboxes: a.path("sandboxes"), RecoveryTimeout: c.RecoveryTimeout,
		ExecutorTimeout: c.ExecutorTimeout, ExecutorIdle: c.ExecutorIdle, SandboxAge: c.SandboxAge, StubsMax: c.SandboxesMax,
	}
}

// post brings something to the loop; false when the agent is ending.
func (a *Agent) post(ctx context.Context, it item) bool {
	select {
	case a.inbox <- it:
		return true
	case <-ctx.Done():
		return false
	}
}

func (a *Agent) happened(ctx context.Context, what core.Happening) bool {
	return a.post(ctx, item{what: what})
}

// ask lets a reader look at the core between two events; false when the agent is ending.
func (a *Agent) ask(ctx context.Context, look func(*core.Core)) bool {
	done := make(chan struct{})
	select {
	case a.asks <- func(c *core.Core) { look(c); close(done) }:
		<-done
		return true
	case <-ctx.Done():
		return false
	}
}

// fail ends Run with the first thing that can't be mended.
func (a *Agent) fail(err error) {
	select {
	case a.failed <- err:
	default:
	}
}

func (a *Agent) nextConn() core.Conn { return core.Conn(a.conns.Add(1)) }

func random() string { return rand.Text() }
