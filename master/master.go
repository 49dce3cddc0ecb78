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
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/internal/forward"
	"github.com/tenderhq/tender/master/internal/guard"
	"github.com/tenderhq/tender/master/internal/intake"
	"github.com/tenderhq/tender/master/internal/names"
	"github.com/tenderhq/tender/master/internal/raftlog"
	"github.com/tenderhq/tender/master/internal/registrycodec"
	"github.com/tenderhq/tender/master/internal/statehash"
	"github.com/tenderhq/tender/master/registry"
)

// Master is one master. Call New, then Run once; or Close.
type Master struct {
	config  Config
	log     zerolog.Logger
	lock    *os.File // locks the data folder; nil in memory
	raft    *raftlog.Log
	server  *grpc.Server
	http    *httpServer // nil: none
	metrics *metrics

	guard     *guard.Guard
	listeners listeners
	leading   atomic.Pointer[leader]              // nil: this master does not lead
	standings atomic.Pointer[map[string]standing] // of the other masters, while this one leads
	intake    *intake.Intake
	jobs      *forward.Jobs // forwards calls to the job manager
	watches   *watchLogs    // what watchers are told
	under     underWay
	hash      *statehash.Hash
	stuck     atomic.Int32 // how many abandoned loops are still stuck
	changed   *broadcast   // fired whenever this master begins or ends to lead
	news      *broadcast   // fired when this master hears of a new leader
	rights    *broadcast   // fired when the rights of a principal may have changed
}

// listeners holds the listeners of this master, and the proof of its identity.
type listeners struct {
	grpc, raft, http net.Listener  // http is nil if there is none
	names            *names.Server // nil: there is none
	proof            proof
}

// New checks the configuration, locks the folder, reads it and opens the listeners. It starts nothing; Run does that.
func New(config Config) (*Master, error) {
	err := config.checkFolder()
	if err == nil {
		config, err = config.withKey()
	}
	if err == nil {
		config, err = config.withKept()
	}
	if err == nil {
		config, err = config.withID()
	}
	if err != nil {
		return nil, err
	}
	config = config.withDefaults()
	if err := config.check(); err != nil {
		return nil, err
	}
	m := &Master{config: config, log: *config.Logger, metrics: newMetrics(), changed: newBroadcast(), news: newBroadcast(), rights: newBroadcast(), under: newUnderWay(), watches: newWatchLogs()}
	m.intake = intake.New(m.tellHeld)
	m.jobs = &forward.Jobs{Managers: m.jobManagers, Dial: func(ctx context.Context, address string) (net.Conn, error) {
		return m.listeners.proof.holder.Dialer(config.Dial, trust.Framework)(ctx, address)
	}}
	if err := m.open(); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (m *Master) open() (err error) {
	if m.config.DataDir != "" {
		if m.lock, err = lockFolder(m.config.DataDir); err != nil {
			return err
		}
		m.shutFolder()
	}
	if err := m.config.checkJournal(); err != nil {
		return err
	}
	if m.listeners.grpc, err = m.listen("gRPC", m.config.GRPC, grpcConnectionsMax); err != nil {
		return err
	}
	if m.listeners.raft, err = m.config.listen("Raft", m.config.Raft); err != nil {
		return err
	}
	if m.config.HTTP != noListener {
		if m.listeners.http, err = m.listen("HTTP", m.config.HTTP, httpConnectionsMax); err != nil {
			return err
		}
	}
	if err := m.openNames(); err != nil {
		return err
	}
	if m.config, err = m.config.withObtained(); err != nil {
		return err
	}
	if m.listeners.proof, err = m.newProof(); err != nil {
		return err
	}
	m.raft, err = raftlog.Open(raftlog.Config{
		Dir:    m.config.DataDir,
		Memory: m.config.Memory,
		ID:     m.config.ID,
		Peers:  m.config.Peers,
		Listener: m.listeners.proof.holder.Listener(m.listeners.raft, trust.Door{
			Kinds: []trust.Kind{trust.Master}, Anew: true, Seen: m.listeners.proof.registrar.Met, Ended: m.sayEnded(),
		}),
		Advertise: m.config.advertised(m.listeners.raft.Addr().String()),
		Dial:      m.dialRaft,
		Profile:   raftlog.Profile(m.config.Profile),
		Version:   m.config.Version,
		Format:    m.config.Format,
		Logger:    m.log,
		Committed: m.metrics.committed,
		Changed:   m.news.fire,
		Rights:    m.rights.fire,
	})
	if err != nil {
		return err
	}
	m.hash = statehash.New(m.index, m.raft.Registry, registrycodec.Hash)
	m.config.ID = m.raft.ID()
	m.log = m.log.With().Str("master", string(m.config.ID)).Logger()
	if m.config.reachedNowhere() {
		m.log.Warn().Str("grpc", m.GRPCAddr()).Msg(transport.HowToAdvertise)
	}
	if m.config.Trust.Insecure {
		m.log.Warn().Msg("--insecure: nothing is encrypted and there are no identities: everybody who reaches a master can run commands on every agent")
	}
	m.openHistory()
	if err := m.renewOwn(); err != nil {
		return err
	}
	if m.guard, err = guard.New(m.access(), m.config.DataDir, m.log, m.raft.Principals, m.index, m.metrics.registry); err != nil {
		return err
	}
	m.server = m.newServer()
	if m.listeners.http != nil {
		m.http = newHTTPServer(m)
	}
	m.metrics.watch(m)
	return m.keep()
}

// listen opens a listener for at most limit connections at a time.
func (m *Master) listen(what, address string, limit int64) (net.Listener, error) {
	listener, err := m.config.listen(what, address)
	if err != nil {
		return nil, err
	}
	return m.intake.Bound(listener, limit), nil
}

// openNames opens the sockets for DNS, if they are configured.
func (m *Master) openNames() (err error) {
	if m.config.DNS == "" {
		return nil
	}
	leader := func() string {
		if m.leading.Load() != nil {
			return ""
		}
		_, address := m.Leader()
		return address
	}
	m.listeners.names, err = names.Open(names.Config{
		Address: m.config.DNS, Bound: m.intake.Bound, Metrics: m.metrics.registry,
		Source: names.Source{
			Index: m.index, Registry: func(look func(*registry.State)) { m.raft.Read(look) }, Leader: leader, Dial: m.dial, Tasks: m.listRunning,
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

// keep writes the addresses of the listeners down, so that a restart uses the same ports.
func (m *Master) keep() error {
	config := m.config
	config.GRPC = m.listeners.grpc.Addr().String()
	config.Raft = m.listeners.raft.Addr().String()
	if m.listeners.http != nil {
		config.HTTP = m.listeners.http.Addr().String()
	}
	return config.keep()
}

func (m *Master) dialRaft(address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return m.listeners.proof.holder.Dialer(m.config.Dial, trust.Master)(ctx, address)
}

// Close releases what New has opened. It is for a master whose Run is not called.
func (m *Master) Close() error {
	errs := []error{m.jobs.Close()}
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
func (m *Master) GRPCAddr() string { return m.config.advertised(m.listeners.grpc.Addr().String()) }

// HTTPAddr returns the address under which others reach the HTTP listener; "" when there is none.
func (m *Master) HTTPAddr() string {
	if m.listeners.http == nil {
		return ""
	}
	return m.config.advertised(m.listeners.http.Addr().String())
}

// RaftAddr returns the address under which others reach the Raft listener.
func (m *Master) RaftAddr() string { return m.config.advertised(m.listeners.raft.Addr().String()) }

// Leading reports whether this master leads, and in which term.
func (m *Master) Leading() (api.Term, bool) {
	if l := m.leading.Load(); l != nil {
		return l.lead.Term, true
	}
	return api.Term{}, false
}

// LeadershipChanged returns a channel that is closed when this master begins or ends to lead. Get the channel first,
// then call Leading.
func (m *Master) LeadershipChanged() <-chan struct{} { return m.changed.wait() }

// Leader returns the leader and its gRPC address, as far as this master knows; "" when it does not know.
func (m *Master) Leader() (api.MasterID, string) {
	if m.leading.Load() != nil {
		return m.config.ID, m.GRPCAddr()
	}
	id, _ := m.raft.Members.Leader()
	if id == m.config.ID {
		return "", "" // elected, but the gate is not open yet
	}
	return id, m.raft.Outline().Masters[id].GRPC
}

// notLeader returns the error for calls that only a leader can serve.
func (m *Master) notLeader(op string) *api.Error {
	_, address := m.Leader()
	if missing := m.raft.Members.Missing(); address == "" && missing != "" {
		return wire.NoLeader(op, missing)
	}
	return wire.NotLeader(op, address)
}

// index returns the index of the last log entry that this master's registry includes.
func (m *Master) index() uint64 { return m.raft.Outline().Index }

// self returns what the registry should say about this master.
func (m *Master) self() registry.Master {
	return registry.Master{
		GRPC: m.GRPCAddr(), HTTP: m.HTTPAddr(), Raft: m.RaftAddr(), Version: m.config.Version, Allocator: m.config.Allocator,
	}
}

// Run serves until ctx ends or this master can't continue. Everything that it has started has ended when it returns.
func (m *Master) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m.log.Info().Str("grpc", m.GRPCAddr()).Str("http", m.HTTPAddr()).Str("raft", m.RaftAddr()).
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
	part(func() error { m.announce(ctx); return nil })
	part(func() error { m.watchCluster(ctx); return nil })
	part(func() error { m.keepHistory(ctx); return nil })
	part(func() error { m.saveSnapshots(ctx); return nil })
	part(func() error { m.guard.Watch(ctx, m.rights.wait); return nil })
	part(func() error { return m.keepIdentity(ctx) })
	part(func() error { m.joinQuorum(ctx); return nil })
	part(func() error { return serveError(m.server.Serve(m.listeners.grpc)) })
	if m.http != nil {
		part(func() error {
			return m.http.serve(m.httpListener())
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
	m.under.beside.Wait()
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
	m.under.leaving.Store(true)
	m.news.fire() // wakes connections that wait for a leader in their handshake
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.server.GracefulStop()
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
