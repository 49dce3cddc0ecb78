package raftlog

import (
	"errors"
	"io/fs"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/quorum"
	"github.com/tenderhq/tender/master/registry"
)

// Log is a master's part of the replicated log. Call Open, then Run once. It knows all rooms, and Run's goroutine goes
// from one to the other; a room holds those that it calls, and none calls back.
type Log struct {
	Members   *Members
	Snapshots *Snapshots

	config    *Config
	folder    *folder // Run's goroutine only
	machine   *machine
	chatter   *chatter
	network   *network
	loop      *loop
	self      *identity
	engine    *engine
	others    *others
	reign     *reign
	place     *place
	agreement *agreement
	carry     func(*carrier) raft.Transport // makes the transport; a test can put faults into it
}

// loop is what other goroutines have for Run's, what runs beside it, and why it has to end. Nobody waits for it here.
type loop struct {
	fatal    chan error        // why the process has to end
	look     chan struct{}     // something about leadership changed: look again (P11)
	full     chan struct{}     // many bytes were added to the log
	requests chan func(*life)  // what Run's goroutine should do between two looks
	departed chan api.MasterID // masters whose connections were closed; see successor
	asking   sync.WaitGroup    // goroutines that wait for other masters or for Raft
}

// Open reads and checks the folder, and opens Raft's files. It starts nothing.
func Open(config Config) (*Log, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, api.E("raft.open", api.Invalid, config.Dir, err)
	}
	l := newLog(&config)
	l.folder.ends = l.loop.fail
	if err := l.openFolder(); err != nil {
		return nil, err
	}
	return l, nil
}

// newLog builds the rooms, each on those that it calls.
func newLog(config *Config) *Log {
	l := &Log{
		config:  config,
		folder:  &folder{dir: config.Dir, memory: config.Memory},
		chatter: newChatter(),
		loop: &loop{
			fatal: make(chan error, 1), look: make(chan struct{}, 1), full: make(chan struct{}, 1), requests: make(chan func(*life)),
			departed: make(chan api.MasterID, 1),
		},
		engine: &engine{config: config},
		carry:  func(t *carrier) raft.Transport { return t },
	}
	l.network = newNetwork(*config, func() quorum.About { return l.others.aboutUs() }, l.loop.hasLeft)
	l.machine = newMachine(l.loop.fail)
	l.self = &identity{config: config, folder: l.folder}
	l.others = &others{
		config: config, self: l.self, engine: l.engine, machine: l.machine, network: l.network, chatter: l.chatter,
		silent: make(map[api.MasterID]time.Time),
	}
	l.reign = &reign{
		config: config, folder: l.folder, machine: l.machine, loop: l.loop, self: l.self, others: l.others,
		leaderships: make(chan *Leadership, 1), barrier: (*life).barrier,
	}
	l.place = &place{config: config, folder: l.folder, machine: l.machine, network: l.network, self: l.self, others: l.others}
	l.agreement = &agreement{
		config: config, machine: l.machine, loop: l.loop, self: l.self, others: l.others, reign: l.reign,
		raising: make(chan struct{}, 1), comparing: make(chan struct{}, 1),
	}
	l.Members = &Members{
		config: config, machine: l.machine, network: l.network, loop: l.loop, self: l.self, engine: l.engine, others: l.others,
		reign: l.reign, place: l.place,
	}
	l.Snapshots = &Snapshots{config: config, folder: l.folder, machine: l.machine, loop: l.loop, self: l.self, engine: l.engine}
	l.machine.rights, l.machine.full, l.machine.trail = config.Rights, l.loop.noteFull, l.Snapshots.keepTrail
	l.network.heard, l.network.hears = l.others.heardFrom, l.engine.hears
	return l
}

func (l *Log) openFolder() error {
	err := l.folder.load()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = l.folder.begin(*l.config)
	case err == nil:
		err = l.folder.goOn(*l.config)
	}
	if err == nil {
		err = l.self.save()
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

func (l *Log) raftLogger() raftLogger { return newRaftLogger(l.config.Logger, l.chatter) }

// ID returns this master's ID.
func (l *Log) ID() api.MasterID { return l.self.id() }

// Cluster returns the cluster to which this folder belongs; "" until it is founded or joined.
func (l *Log) Cluster() api.ClusterID { return l.self.cluster() }

// Leaderships delivers each leadership of this master once its gate is open. Then the registry is complete up to the
// leadership's beginning, and a majority has confirmed it.
func (l *Log) Leaderships() <-chan *Leadership { return l.reign.leaderships }

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

// fail makes Run end with the error.
func (w *loop) fail(err error) {
	select {
	case w.fatal <- err:
	default: // one error is enough
	}
}

// Close releases what Open has opened. It is for a Log whose Run is not called.
func (l *Log) Close() error { return l.folder.close() }

// noteFull makes Run's goroutine take a snapshot.
func (w *loop) noteFull() {
	select {
	case w.full <- struct{}{}:
	default: // it is signalled already
	}
}

// lookAgain makes Run's goroutine compare Raft's state with ours.
func (w *loop) lookAgain() {
	select {
	case w.look <- struct{}{}:
	default: // a look is due already
	}
}

// hasLeft is told of each closed connection. If one is missed here, the silence of its master is noticed instead.
func (w *loop) hasLeft(id api.MasterID) {
	select {
	case w.departed <- id:
	default:
	}
}
