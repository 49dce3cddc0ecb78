package raftlog

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/quorum"
	"github.com/tenderhq/tender/master/registry"
)

// Log is a master's part of the replicated log. Call Open, then Run once.
type Log struct {
	config      Config
	folder      *folder // Run's goroutine only
	network     *network
	machine     *machine
	chatter     *chatter
	leaderships chan *Leadership
	barrier     func(*life) raft.Future       // issues Raft's barrier; a test can make it fail
	carry       func(*carrier) raft.Transport // makes the transport; a test can put faults into it
	asking      sync.WaitGroup                // goroutines that wait for other masters or for Raft
	// founded is set when this run of the process has founded the cluster, so that nobody leads yet. It is set before
	// Raft begins.
	founded  bool
	verified verified // Run's goroutine only
	trimmed  bool     // only the goroutine of Raft that calls keepTrail
	// unusable is the last leadership, whose term can't be used again. Run's goroutine only.
	unusable *Leadership
	signals
	shared
}

// signals wakes Run's goroutine, and the goroutines beside it.
type signals struct {
	fatal     chan error        // why the process has to end
	look      chan struct{}     // something about leadership changed: look again (P11)
	full      chan struct{}     // many bytes were added to the log
	requests  chan func(*life)  // what Run's goroutine should do between two looks
	departed  chan api.MasterID // masters whose connections were closed; see successor
	raising   chan struct{}     // holds one entry while all masters are asked which format they know
	comparing chan struct{}     // holds one entry while all masters are asked for their hashes
}

func newSignals() signals {
	return signals{
		fatal: make(chan error, 1), look: make(chan struct{}, 1), full: make(chan struct{}, 1), requests: make(chan func(*life)),
		departed: make(chan api.MasterID, 1), raising: make(chan struct{}, 1), comparing: make(chan struct{}, 1),
	}
}

// shared is the part of a Log that any goroutine may use, under its lock.
type shared struct {
	mu      sync.Mutex
	said    quorum.About               // what we say about ourselves, from the settings; guarded by mu
	silent  map[api.MasterID]time.Time // followers that do not answer, since when; guarded by mu
	missing string                     // why nobody can lead, as of our last look; guarded by mu
	voted   bool                       // guarded by mu
	raft    *life                      // nil while none runs; guarded by mu
	leading *Leadership                // guarded by mu
	// transferred is the last term in which we tried to hand leadership over (P3).
	transferred uint64 // guarded by mu
}

// Open reads and checks the folder, and opens Raft's files. It starts nothing.
func Open(config Config) (*Log, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, api.E("raft.open", api.Invalid, config.Dir, err)
	}
	l := &Log{
		config:      config,
		folder:      &folder{dir: config.Dir, memory: config.Memory},
		chatter:     newChatter(),
		leaderships: make(chan *Leadership, 1),
		barrier:     (*life).barrier,
		carry:       func(t *carrier) raft.Transport { return t },
		signals:     newSignals(),
		shared:      shared{silent: make(map[api.MasterID]time.Time)},
	}
	l.machine = newMachine(l.failRun)
	l.machine.rights = config.Rights
	l.machine.full = func() {
		select {
		case l.full <- struct{}{}:
		default: // it is signalled already
		}
	}
	l.machine.trail = l.keepTrail
	l.folder.ends = l.failRun
	if err := l.openFolder(); err != nil {
		return nil, err
	}
	l.network = newNetwork(l.config, l.aboutUs, l.hasLeft)
	l.network.heard = l.heardFrom
	l.network.hears = l.hears
	return l, nil
}

func (l *Log) openFolder() error {
	err := l.folder.load()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = l.folder.begin(l.config)
	case err == nil:
		err = l.folder.goOn(l.config)
	}
	if err == nil {
		err = l.saveSettings()
	}
	if err != nil {
		return wrap("raft.open", l.config.Dir, err)
	}
	return wrap("raft.open", l.config.Dir, howToMakeRoom(l.config.Dir, l.folder.open(l.raftLogger())))
}

// wrap converts an error to an *api.Error, unless it is one.
func wrap(op, subject string, err error) error {
	var known *api.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	return api.E(op, api.Unavailable, subject, err)
}

// saveSettings writes the settings, and only then tells others what they say.
func (l *Log) saveSettings() error {
	if err := l.folder.save(); err != nil {
		return wrap("raft.save", l.config.Dir, howToMakeRoom(l.config.Dir, err))
	}
	s := l.folder.settings
	l.mu.Lock()
	defer l.mu.Unlock()
	l.voted = s.Voted
	l.said = quorum.About{
		ID: s.ID, Cluster: s.Cluster, Epoch: s.Epoch, Incarnation: s.Incarnation, Format: l.config.Format, Version: l.config.Version,
		Peers: append([]Peer(nil), s.Peers...), Founders: append([]quorum.Founder(nil), s.Founders...),
	}
	return nil
}

func (l *Log) raftLogger() raftLogger { return raftLogger{log: l.config.Logger, chatter: l.chatter} }

// ID returns this master's ID.
func (l *Log) ID() api.MasterID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said.ID
}

// Cluster returns the cluster to which this folder belongs; "" until it is founded or joined.
func (l *Log) Cluster() api.ClusterID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said.Cluster
}

// Leaderships delivers each leadership of this master once its gate is open. Then the registry is complete up to the
// leadership's beginning, and a majority has confirmed it.
func (l *Log) Leaderships() <-chan *Leadership { return l.leaderships }

// Registry returns the state as far as this master has applied it. It must not be changed; any number of goroutines may
// read it.
func (l *Log) Registry() *registry.State { return l.machine.show() }

// Principals returns the registry's present principals. The caller must not change them.
func (l *Log) Principals() map[string]registry.Principal { return l.machine.principals() }

// Read calls look with the registry, between two entries of the log. Entries wait meanwhile, so look must be short, and
// must keep nothing that a later command may change. Unlike Registry it does not make the next write copy anything.
func (l *Log) Read(look func(*registry.State)) { l.machine.read(look) }

// Outline returns the small part of the registry that is needed again and again. After a call of Registry the next
// write must copy whole maps, so readers that poll should use this instead.
func (l *Log) Outline() Outline { return l.machine.outline() }

// Leader returns the leader and its Raft address, as far as this master knows; "" when it does not know.
func (l *Log) Leader() (api.MasterID, string) {
	r := l.runningRaft()
	if r == nil {
		return "", ""
	}
	addr, id := r.LeaderWithID()
	return idOf(id), string(addr)
}

func (l *Log) runningRaft() *life {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.raft
}

// failRun makes Run end with the error.
func (l *Log) failRun(err error) {
	select {
	case l.fatal <- err:
	default: // one error is enough
	}
}

// Close releases what Open has opened. It is for a Log whose Run is not called.
func (l *Log) Close() error { return l.folder.close() }

// Run takes part in the quorum until ctx ends, this master is removed, or it can't continue. It closes the files and
// the listener. Everything that it has started has ended when it returns.
func (l *Log) Run(ctx context.Context) error {
	l.network.start()
	err := l.liveOnce(ctx)
	l.network.close()
	l.asking.Wait()
	l.machine.hashing.Wait()
	close(l.leaderships)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, l.folder.close())
}

func (l *Log) liveOnce(ctx context.Context) error {
	if err := l.awaitAdmission(ctx); err != nil {
		return err
	}
	for {
		if again, err := l.runRaft(ctx); !again {
			return err
		}
		l.config.Logger.Warn().Msg("Raft is started again")
	}
}

// transportTimeout bounds one exchange between masters; a snapshot gets more, by its size.
const transportTimeout = 10 * time.Second

// onePerPeer switches the library's pipelining off. With pipelining, a follower's refusal can leave the sender and the
// receiver of a pipeline waiting for each other for ever. Then that follower gets heartbeats but no entry until the
// leader's process ends, and that process hangs as well (hashicorp/raft#612, open; found here by chaos tests in virtual
// time).
const onePerPeer = 1

func (l *Log) raftConfig() *raft.Config {
	times := timings[l.config.Profile]
	config := raft.DefaultConfig()
	config.LocalID = l.ownServer()
	config.HeartbeatTimeout = times.heartbeat
	config.ElectionTimeout = times.election
	config.LeaderLeaseTimeout = times.lease
	config.CommitTimeout = times.commit
	config.SnapshotThreshold = l.config.SnapshotEntries
	config.SnapshotInterval = 30 * time.Second
	config.TrailingLogs = l.config.SnapshotEntries + l.config.SnapshotEntries/4
	config.MaxAppendEntries = appendEntriesMax
	config.Logger = l.raftLogger()
	return config
}

// runRaft is one life of the library. again asks for another one.
func (l *Log) runRaft(ctx context.Context) (again bool, err error) {
	if err := l.folder.checkOwnTerm(); err != nil {
		return false, err
	}
	config := l.raftConfig()
	stream := l.network.stream()
	network := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream:                  stream,
		MaxPool:                 keptConnectionsMax,
		MaxRPCsInFlight:         onePerPeer,
		Timeout:                 transportTimeout,
		Logger:                  config.Logger,
		MsgpackUseNewTimeFormat: true,
	})
	known, _ := l.folder.stable.GetUint64(currentTerm) // none means 0
	own := &carrier{NetworkTransport: network, stream: stream, patience: l.patience, gate: newTermGate(func() uint64 {
		if r := l.runningRaft(); r != nil {
			return r.CurrentTerm()
		}
		return known
	}, func(leader raft.ServerID, term uint64) bool {
		r := l.runningRaft()
		return r != nil && r.follows(leader, term)
	}, func() raft.RaftState {
		if r := l.runningRaft(); r != nil {
			return r.State()
		}
		return raft.Follower
	})}
	transport := l.carry(own)
	if err := l.bootstrapRaft(config, transport); err != nil {
		return false, errors.Join(wrap("raft.bootstrap", l.config.Dir, howToMakeRoom(l.config.Dir, err)), own.Close())
	}
	library, err := l.newRaft(config, transport)
	if err != nil {
		return false, errors.Join(wrap("raft.start", l.config.Dir, err), own.Close())
	}
	r := &life{Raft: library, over: make(chan struct{})}
	unwatch := l.watchRaft(r)
	l.setRaft(r)
	stopSucceeding := l.watchSuccession(ctx, r, transport)
	again, err = l.watchLeadership(ctx, r)
	stopSucceeding()
	l.founded = false
	unwatch()
	l.setRaft(nil)
	return again, errors.Join(err, r.end(l.id()))
}

// hears reports whether messages of a master count; see [life.hears].
func (l *Log) hears(server raft.ServerID) bool {
	r := l.runningRaft()
	return r == nil || r.hears(server)
}

// patience returns how long silence is tolerated in this life of Raft.
func (l *Log) patience() time.Duration {
	if r := l.runningRaft(); r != nil {
		return r.ReloadableConfig().ElectionTimeout
	}
	return timings[l.config.Profile].election
}

// newRaft begins a life of the library. The library begins by writing its term, and its goroutine ends if that is
// impossible (checkTerm).
func (l *Log) newRaft(config *raft.Config, transport raft.Transport) (*raft.Raft, error) {
	type outcome struct {
		raft *raft.Raft
		err  error
	}
	began := make(chan outcome, 1)
	go func() {
		defer close(began)
		r, err := raft.NewRaft(config, l.machine, l.folder.logs, l.folder.stable, l.folder.snapshots, transport)
		began <- outcome{r, err}
	}()
	if got, came := <-began; came {
		return got.raft, got.err
	}
	return nil, howToMakeRoom(l.config.Dir, <-l.fatal)
}

// keepTrail sets how many entries stay in the log behind the snapshot that is being made; 0 means as many as usual.
func (l *Log) keepTrail(entries uint64) {
	r := l.runningRaft()
	if r == nil || entries == 0 && !l.trimmed {
		return
	}
	usual := l.config.SnapshotEntries + l.config.SnapshotEntries/4
	if entries == 0 || entries > usual {
		entries = usual
	}
	l.trimmed = entries < usual
	if r.ReloadableConfig().TrailingLogs != entries {
		r.reload(func(c *raft.ReloadableConfig) { c.TrailingLogs = entries })
	}
}

func (l *Log) setRaft(r *life) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.raft = r
}

func (l *Log) lookAgain() {
	select {
	case l.look <- struct{}{}:
	default: // a look is due already
	}
}
