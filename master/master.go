package master

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/direct"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/master/internal/forward"
	"github.com/tenderhq/tender/master/internal/guard"
	"github.com/tenderhq/tender/master/internal/intake"
	"github.com/tenderhq/tender/master/internal/names"
	"github.com/tenderhq/tender/master/internal/raftlog"
	"github.com/tenderhq/tender/master/internal/registrycodec"
	"github.com/tenderhq/tender/master/internal/statehash"
	"github.com/tenderhq/tender/master/internal/watching"
	"github.com/tenderhq/tender/master/registry"
)

// Master is one master. Call New, then Run once; or Close. It knows all rooms, begins and ends them; a room holds those
// that it calls, and none calls back.
type Master struct {
	config  *Config
	log     *zerolog.Logger
	lock    *os.File // locks the data folder; nil in memory
	raft    *raftlog.Log
	metrics *metrics
	intake  *intake.Intake
	guard   *guard.Guard

	listeners *listeners
	leading   *leadership
	proof     *proof
	masters   *masters
	calls     *calls
	saver     *saver
	watches   *watchLogs
	services  *services
	server    *grpc.Server
	agents    *direct.Server
	http      *httpServer // nil: none

	stuck  atomic.Int32 // how many abandoned loops are still stuck
	rights *broadcast   // fired when the rights of a principal may have changed
}

// New checks the configuration, locks the folder, reads it and opens the listeners. It starts nothing; Run does that.
func New(config Config) (*Master, error) {
	if config.DataDir != "" {
		var err error
		if config, err = config.withFolder(); err != nil {
			return nil, err
		}
	}
	config = config.withDefaults()
	if err := config.check(); err != nil {
		return nil, err
	}
	log := *config.Logger
	m := &Master{config: &config, log: &log, metrics: newMetrics(), rights: newBroadcast()}
	m.intake = intake.New(m.tellHeld)
	m.listeners = &listeners{config: m.config, intake: m.intake}
	m.leading = &leadership{config: m.config, intake: m.intake, listeners: m.listeners, changed: newBroadcast(), news: newBroadcast()}
	m.proof = &proof{config: m.config, log: m.log, listeners: m.listeners, leading: m.leading, rights: m.rights}
	m.services = &services{jobs: &forward.Jobs{Managers: m.leading.jobManagers, Dial: func(ctx context.Context, address string) (net.Conn, error) {
		return m.proof.holder.Dialer(config.Dial, trust.Framework)(ctx, address)
	}}}
	if err := m.open(); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// open opens the folder, the listeners and the replicated log, each after what it needs, and builds the rooms above.
func (m *Master) open() (err error) {
	if m.config.DataDir != "" {
		if m.lock, err = lockFolder(m.config.DataDir); err != nil {
			return err
		}
		shutFolder(m.config.DataDir, m.log)
	}
	if err := m.config.checkJournal(); err != nil {
		return err
	}
	if err := m.listen(); err != nil {
		return err
	}
	if *m.config, err = m.config.withObtained(); err != nil {
		return err
	}
	if err := m.proof.prepare(); err != nil {
		return err
	}
	if err := m.openRaft(); err != nil {
		return err
	}
	if m.config.reachedNowhere() {
		m.log.Warn().Str("grpc", m.GRPCAddr()).Msg(transport.HowToAdvertise)
	}
	if m.config.Trust.Insecure {
		m.log.Warn().Msg("--insecure: nothing is encrypted and there are no identities: everybody who reaches a master can run commands on every agent")
	}
	if err := m.proof.renew(); err != nil {
		return err
	}
	if m.guard, err = guard.New(m.proof.access(), m.config.DataDir, *m.log, m.raft.Principals, m.leading.index, m.metrics.registry); err != nil {
		return err
	}
	m.build()
	m.watches.openHistory()
	if m.http != nil {
		m.http.prepare()
	}
	return m.listeners.keepAddresses()
}

// listen opens all sockets.
func (m *Master) listen() (err error) {
	if m.listeners.grpc, err = m.listeners.listen("gRPC", m.config.GRPC, grpcConnectionsMax); err != nil {
		return err
	}
	if m.listeners.raft, err = m.config.listen("Raft", m.config.Raft); err != nil {
		return err
	}
	if m.config.HTTP != noListener {
		if m.listeners.http, err = m.listeners.listen("HTTP", m.config.HTTP, httpConnectionsMax); err != nil {
			return err
		}
	}
	return m.openNames()
}

// openRaft opens the replicated log. From then on the master knows its ID, and its log says it.
func (m *Master) openRaft() (err error) {
	m.raft, err = raftlog.Open(raftlog.Config{
		Dir:    m.config.DataDir,
		Memory: m.config.Memory,
		ID:     m.config.ID,
		Peers:  m.config.Peers,
		Listener: m.proof.holder.Listener(m.listeners.raft, trust.Door{
			Kinds: []trust.Kind{trust.Master}, Anew: true, Seen: m.proof.registrar.Met, Ended: m.proof.sayEnded(),
		}),
		Advertise: m.config.advertised(m.listeners.raft.Addr().String()),
		Dial:      m.proof.dialRaft,
		Profile:   raftlog.Profile(m.config.Profile),
		Version:   m.config.Version,
		Logger:    *m.log,
		Committed: m.metrics.committed,
		Changed:   m.leading.news.fire,
		Rights:    m.rights.fire,
	})
	if err != nil {
		return err
	}
	m.leading.raft, m.proof.raft = m.raft, m.raft
	m.config.ID = m.raft.ID()
	*m.log = m.log.With().Str("master", string(m.config.ID)).Logger()
	return nil
}

// build makes the rooms above the replicated log, each on those that it calls.
func (m *Master) build() {
	m.saver = &saver{config: m.config, log: m.log, raft: m.raft, slots: make(chan struct{}, snapshotsMax)}
	m.masters = &masters{config: m.config, log: m.log, raft: m.raft, listeners: m.listeners, leading: m.leading, proof: m.proof, saver: m.saver}
	m.calls = &calls{log: m.log, guard: m.guard, metrics: m.metrics, proof: m.proof}
	m.watches = &watchLogs{
		config: m.config, log: m.log, raft: m.raft, leading: m.leading, proof: m.proof, masters: m.masters,
		events: watching.NewLog(false), views: watching.NewLog(true), over: make(chan struct{}),
	}
	m.services.operator = operatorService{
		lookService:      lookService{config: m.config, raft: m.raft, guard: m.guard, leading: m.leading, masters: m.masters},
		changeService:    changeService{config: m.config, leading: m.leading},
		principalService: principalService{raft: m.raft, leading: m.leading},
		identityService:  identityService{leading: m.leading, proof: m.proof},
	}
	m.services.raft = raftService{
		config: m.config, raft: m.raft, leading: m.leading, masters: m.masters, saver: m.saver,
		hash: statehash.New(m.leading.index, m.raft.Registry, registrycodec.Hash),
	}
	m.services.watch = watchService{config: m.config, raft: m.raft, leading: m.leading, watches: m.watches}
	m.agents = m.newAgents()
	m.server = m.newServer()
	if m.listeners.http != nil {
		m.http = &httpServer{
			config: m.config, log: m.log, raft: m.raft, intake: m.intake, guard: m.guard, metrics: m.metrics, leading: m.leading,
			proof: m.proof, masters: m.masters, calls: m.calls, watches: m.watches, services: m.services,
		}
	}
	m.metrics.registry.MustRegister(collector{
		config: m.config, raft: m.raft, intake: m.intake, metrics: m.metrics, leading: m.leading, proof: m.proof, masters: m.masters,
		watches: m.watches, saver: m.saver,
	})
}

// openNames opens the sockets for DNS, if they are configured.
func (m *Master) openNames() (err error) {
	if m.config.DNS == "" {
		return nil
	}
	leader := func() string {
		if m.leading.now.Load() != nil {
			return ""
		}
		_, address := m.leading.leader()
		return address
	}
	m.listeners.names, err = names.Open(names.Config{
		Address: m.config.DNS, Bound: m.intake.Bound, Metrics: m.metrics.registry,
		Source: names.Source{
			Index: m.leading.index, Registry: func(look func(*registry.State)) { m.raft.Read(look) }, Leader: leader, Dial: m.proof.dialMaster, Tasks: m.leading.listRunning,
		},
	})
	return listenError("DNS", m.config.DNS, err)
}

// tellHeld counts for how long peers are held, and logs which peers are.
func (m *Master) tellHeld(held intake.Held) {
	m.metrics.held.WithLabelValues(held.Of.String(), m.metrics.named.Of(held.Principal)).Add(held.Wait.Seconds())
	if !held.News {
		return
	}
	line := m.log.Warn().Stringer("of", held.Of)
	switch {
	case held.Closed:
		line.Str("address", held.Address).Msg("a connection is closed: its peer has not read what it was answered")
		return
	case held.Of == intake.AnswersExpense:
		line.Str("address", held.Address).Msg("a peer must wait: it has not read its earlier answers")
		return
	}
	if held.Principal != "" {
		line.Str("principal", held.Principal).Msg("a principal must wait: its connections together send more than its allowance")
		return
	}
	line.Str("address", held.Address).Msg("a peer must wait: it sends more than its allowance")
}

// Close releases what New has opened. It is for a master whose Run is not called.
func (m *Master) Close() error {
	errs := []error{m.services.jobs.Close()}
	for _, listener := range []net.Listener{m.listeners.grpc, m.listeners.http, m.listeners.raft} {
		if listener != nil {
			errs = append(errs, ignoreClosed(listener.Close()))
		}
	}
	if m.listeners.names != nil {
		errs = append(errs, ignoreClosed(m.listeners.names.Close()))
	}
	if m.raft != nil {
		errs = append(errs, m.raft.Close())
	}
	if m.guard != nil {
		errs = append(errs, m.guard.Close())
	}
	if m.lock != nil {
		errs = append(errs, m.lock.Close())
	}
	return errors.Join(errs...)
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// ID returns this master's ID.
func (m *Master) ID() api.MasterID { return m.config.ID }

// Cluster returns the ID of this master's cluster; "" until it is founded or joined.
func (m *Master) Cluster() api.ClusterID { return m.raft.Cluster() }

// GRPCAddr returns the address under which others reach the gRPC listener.
func (m *Master) GRPCAddr() string { return m.listeners.grpcAddress() }

// HTTPAddr returns the address under which others reach the HTTP listener; "" when there is none.
func (m *Master) HTTPAddr() string { return m.listeners.httpAddress() }

// RaftAddr returns the address under which others reach the Raft listener.
func (m *Master) RaftAddr() string { return m.listeners.raftAddress() }

// Leading reports whether this master leads, and in which term.
func (m *Master) Leading() (api.Term, bool) { return m.leading.term() }

// LeadershipChanged returns a channel that is closed when this master begins or ends to lead. Get the channel first,
// then call Leading.
func (m *Master) LeadershipChanged() <-chan struct{} { return m.leading.changed.wait() }

// Leader returns the leader and its gRPC address, as far as this master knows; "" when it does not know.
func (m *Master) Leader() (api.MasterID, string) { return m.leading.leader() }

// Run serves until ctx ends or this master can't continue. Everything that it has started has ended when it returns.
func (m *Master) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m.log.Info().Str("grpc", m.GRPCAddr()).Str("http", m.listeners.httpAddress()).Str("raft", m.listeners.raftAddress()).
		Str("version", m.config.Version).Msg("master starts")
	var parts sync.WaitGroup
	part := func(run func() error) {
		parts.Go(func() {
			if err := run(); err != nil {
				cancel(err)
			}
		})
	}
	part(func() error {
		err := m.raft.Run(ctx)
		if err == nil && ctx.Err() == nil {
			err = api.E("master.run", api.Internal, m.config.ID, errors.New("raft has ended"))
		}
		return err
	})
	part(func() error { return m.lead(ctx) })
	part(func() error { m.masters.announce(ctx); return nil })
	part(func() error { m.watches.run(ctx); return nil })
	part(func() error { m.watches.keepHistory(ctx); return nil })
	part(func() error { m.saver.run(ctx); return nil })
	part(func() error { m.guard.Watch(ctx, m.rights.wait); return nil })
	part(func() error { return m.proof.keep(ctx) })
	part(func() error { m.masters.joinQuorum(ctx); return nil })
	part(func() error { return serveError(m.server.Serve(m.listeners.grpc)) })
	if m.http != nil {
		part(func() error {
			return m.http.serve(m.proof.httpListener())
		})
	}
	if m.listeners.names != nil {
		m.log.Info().Str("address", m.listeners.names.Address()).Msg("DNS answers for the names of tasks, to everybody who reaches it")
		part(func() error { return m.listeners.names.Run(ctx) })
	}
	<-ctx.Done()
	m.tellLeaving(context.Cause(ctx))
	m.stopServing()
	parts.Wait()
	m.leading.beside.Wait()
	m.log.Info().Msg("master has ended")
	err := context.Cause(ctx)
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	err = errors.Join(err, m.guard.Close())
	if m.lock != nil {
		err = errors.Join(err, m.lock.Close())
	}
	return err
}

// tellLeaving logs why the master ends, and what that means for the cluster.
func (m *Master) tellLeaving(why error) {
	others := len(m.raft.Outline().Masters) - 1
	line := m.log.Info().AnErr("why", why)
	if others < 1 {
		line.Msg("master leaves; it is the only one, so nothing is decided until it is back; tasks go on")
		return
	}
	line.Int("others", others).Msg("master leaves; the others go on, and so do tasks")
}

// graceToServe is how long calls may continue after the master has begun to end.
const graceToServe = time.Second

func (m *Master) stopServing() {
	m.leading.leaving.Store(true)
	m.leading.news.fire() // wakes connections that wait for a leader in their handshake
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.server.GracefulStop()
		m.agents.Wait()
	}()
	if m.http != nil {
		m.http.stop(graceToServe)
	}
	timer := time.NewTimer(graceToServe)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		m.server.Stop()
		m.agents.Close()
		<-done
	}
}

func serveError(err error) error {
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// broadcast wakes everybody who waits for it.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{} // guarded by mu
}

func newBroadcast() *broadcast { return &broadcast{ch: make(chan struct{})} }

func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ch
}

func (b *broadcast) fire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.ch)
	b.ch = make(chan struct{})
}
