package raftlog

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/internal/registrycodec"
	"github.com/tenderhq/tender/master/registry"
)

// Outline is the small part of the registry that is needed again and again.
type Outline struct {
	Cluster api.ClusterID
	Epoch   uint64
	Index   uint64
	Masters map[api.MasterID]registry.Master
}

// Commit is one entry of the log that the quorum has committed.
type Commit struct {
	Index    uint64
	Commands []registry.Command
	Results  []registry.Result // of the commands, on this master's registry
}

// commitsMax bounds the commits that the leader's loop has not taken yet. When there are more, the leadership ends,
// because a leader that is so far behind can't decide anything.
const commitsMax = 4096

// machine is the registry as Raft sees it. Raft calls it from one goroutine.
type machine struct {
	fail func(error) // called when what was committed can't be applied, so that the process must stop

	mu         sync.Mutex
	state      *registry.State // guarded by mu
	term       uint64          // of the last entry that was applied; guarded by mu
	broken     bool            // guarded by mu
	subscriber *subscriber     // guarded by mu
	shown      *registry.State // a clone of state that is valid until the next entry; guarded by mu
	bytes      uint64          // bytes applied since the last snapshot; guarded by mu
	sizes      sizes           // sizes of the newest entries; guarded by mu
	marks      marks           // hashes of the registry; guarded by mu
	hashing    sync.WaitGroup  // goroutines that compute a hash

	// full is called when many bytes were added to the log. Set before Raft begins; must not wait.
	full func()
	// trail is called with how many entries should stay behind a snapshot. Set before Raft begins.
	trail func(entries uint64)
	// rights is called when anybody's rights may have changed. Set before Raft begins; must not wait.
	rights func()
}

// subscriber is a leadership that is told of every commit after its beginning.
type subscriber struct {
	commits chan Commit
	lost    func(why string) // called once, when a commit could not be delivered
	over    bool
}

func newMachine(fail func(error)) *machine {
	return &machine{fail: fail, state: registry.New(), marks: marks{every: hashEvery}, full: func() {}, trail: func(uint64) {}, rights: func() {}}
}

// Apply is called with every committed entry, in order. An entry that can't be read stops this master (P9), because
// without it this master's registry would differ from the others'.
func (m *machine) Apply(entry *raft.Log) any {
	commands, err := registrycodec.DecodeEntry(entry.Data)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil || m.broken {
		if !m.broken {
			m.broken = true
			m.fail(fmt.Errorf("entry %d of the log can't be applied: %w", entry.Index, err))
		}
		return errors.New("this master has stopped to apply the log")
	}
	before := m.state.Index
	results, rights := make([]registry.Result, len(commands)), false
	for i, command := range commands {
		results[i] = m.state.Apply(command)
		if check, ok := command.Change.(registry.CheckHash); ok {
			m.agreed(check)
		}
		rights = rights || registry.ChangesRights(command.Change)
	}
	m.state.Index, m.term, m.shown = entry.Index, entry.Term, nil
	if rights {
		m.rights()
	}
	m.takeHash(before, entry.Index)
	m.grow(entry)
	m.publish(Commit{entry.Index, commands, results})
	return results
}

func (m *machine) grow(entry *raft.Log) {
	before := m.bytes
	m.bytes += uint64(len(entry.Data))
	m.sizes.add(uint64(len(entry.Data)))
	if before < snapshotBytes && m.bytes >= snapshotBytes {
		m.full()
	}
}

func (m *machine) publish(commit Commit) {
	s := m.subscriber
	if s == nil || s.over {
		return
	}
	select {
	case s.commits <- commit:
	default:
		s.over = true
		s.lost(fmt.Sprintf("%d commits wait for the leader's loop", commitsMax))
	}
}

// subscribe returns the present state, and delivers every commit that follows.
func (m *machine) subscribe(lost func(why string)) (*registry.State, *subscriber) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.subscriber = &subscriber{commits: make(chan Commit, commitsMax), lost: lost}
	return m.state.Clone(), m.subscriber
}

func (m *machine) unsubscribe(s *subscriber) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.over = true
	if m.subscriber == s {
		m.subscriber = nil
	}
}

// outline returns what small answers need. Unlike show it does not make the next write copy anything.
func (m *machine) outline() Outline {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.state
	return Outline{Cluster: s.Cluster, Epoch: s.Epoch, Index: s.Index, Masters: maps.Clone(s.Masters)}
}

// principals returns the registry's present principals. Nobody changes that map.
func (m *machine) principals() map[string]registry.Principal {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Principals
}

// read calls look with the registry, between two entries of the log.
func (m *machine) read(look func(*registry.State)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	look(m.state)
}

// epoch returns the registry's epoch, as far as this master has applied the log.
func (m *machine) epoch() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Epoch
}

// show returns the present state, for readers that change nothing.
func (m *machine) show() *registry.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.shown == nil {
		m.shown = m.state.Clone()
	}
	return m.shown
}

// format returns the newest format that all masters know, as far as this one has applied the log.
func (m *machine) format() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Format
}

// Snapshot is called between two calls of Apply. Writing the snapshot happens beside them.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken {
		return nil, errors.New("this master has stopped to apply the log")
	}
	m.bytes = 0
	m.trail(m.sizes.within(trailingBytesMax))
	return &picture{m.state.Clone(), m.term}, nil
}

// Restore replaces the state by a snapshot: at start, or when this master had fallen behind.
func (m *machine) Restore(source io.ReadCloser) error {
	defer source.Close()
	state, head, err := registrycodec.ReadSnapshot(source)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state, m.term, m.shown, m.bytes, m.sizes = state, head.Term, nil, 0, sizes{}
	m.rights()
	if s := m.subscriber; s != nil && !s.over {
		s.over = true
		s.lost("a snapshot replaced the registry")
	}
	return nil
}

// picture is a snapshot of a state that nobody changes any more.
type picture struct {
	state *registry.State
	term  uint64
}

func (p *picture) Persist(sink raft.SnapshotSink) error {
	metaSum := ""
	if s, is := sink.(sealingSink); is {
		metaSum = s.metaSum
	}
	if err := registrycodec.WriteSealedSnapshot(sink, p.state, p.term, metaSum); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

func (p *picture) Release() {}
