package raftlog

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/logpb"
	"github.com/tenderhq/tender/master/internal/registrycodec"
	"github.com/tenderhq/tender/master/registry"
)

// Proposal is a command on its way to the quorum.
type Proposal struct {
	Command registry.Command
	// Done, if set, is called once with the outcome. It must not wait. The kind of the error says what is known:
	// NotLeader: the command certainly was not committed. Unknown: nobody can tell (P7). Invalid or Limit: it can't be
	// written, and was not; then Done is called before Propose returns.
	Done func(registry.Result, error)
}

func (p Proposal) done(result registry.Result, err error) {
	if p.Done != nil {
		p.Done(result, err)
	}
}

const (
	// proposalsMax and proposalBytesMax bound what waits for the next entry. When it is full, Propose refuses, and the
	// leader's loop takes nothing from outside until there is room.
	proposalsMax     = 16384
	proposalBytesMax = 64 << 20
	// entriesInFlightMax bounds the entries between us and the quorum: the others write one while we write the next.
	// Meanwhile proposals gather for the entry after that. If there were more, each would hold less, and each is a write
	// to the disk of every master.
	entriesInFlightMax = 2
)

// Leadership is one term in which this master leads.
type Leadership struct {
	Term api.Term
	// State is the registry at the beginning of the leadership; the receiver owns it.
	State *registry.State

	self       *identity
	loop       *loop
	machine    *machine
	committed  func(commands int, took time.Duration) // nil: nobody wants to know
	raft       *life
	subscriber *subscriber
	over       chan struct{} // closed when the gate shuts
	stopped    chan struct{} // closed when all goroutines of the leadership have ended

	mu    sync.Mutex
	why   string    // why it has ended; guarded by mu
	shut  bool      // guarded by mu
	queue []waiting // guarded by mu
	bytes int       // bytes in queue; guarded by mu
	wake  chan struct{}
}

// waiting is a proposal that waits, encoded.
type waiting struct {
	Proposal
	message *logpb.Command
	size    int
}

// Commits delivers everything that is committed after State, in order.
func (l *Leadership) Commits() <-chan Commit { return l.subscriber.commits }

// Done is closed when the leadership is over. Commits may still hold entries then, but this master must no longer act
// on them.
func (l *Leadership) Done() <-chan struct{} { return l.over }

// Why returns the reason why the leadership is over.
func (l *Leadership) Why() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why
}

func (l *Leadership) ended() bool {
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}

// End gives up the leadership, because the core is broken or its loop can't keep up. This master steps down, and may be
// elected again in another term (R18).
func (l *Leadership) End(why string) {
	l.end(why)
	l.loop.lookAgain()
}

func (l *Leadership) end(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shut {
		return
	}
	l.shut, l.why = true, why
	close(l.over)
}

// Verify asks a majority whether we still lead. If it returns nil, what we have read before was true at some time since
// the call.
func (l *Leadership) Verify(ctx context.Context) error {
	if err := await(ctx, l.raft.verify()); err != nil || l.ended() {
		return api.E("raft.verify", api.NotLeader, l.self.id(), errors.New("the leadership is over"))
	}
	return nil
}

// Propose hands commands to the quorum and returns at once. Their order, and that of calls, is the order in the log. It
// returns how many of them it has taken, which are fewer when too much waits. Those that are proposed together are
// written together, as far as they fit in an entry.
func (l *Leadership) Propose(proposals ...Proposal) (taken int) {
	for taken < len(proposals) && l.enqueue(proposals[taken]) {
		taken++
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return taken
}

// enqueue adds a command to those that wait for the next entry, or refuses it to its proposer; false when too much waits.
func (l *Leadership) enqueue(proposal Proposal) bool {
	message, size, err := registrycodec.EncodeCommand(proposal.Command)
	if err != nil {
		proposal.done(registry.Result{}, err)
		return true
	}
	l.mu.Lock()
	if l.shut {
		l.mu.Unlock()
		proposal.done(registry.Result{}, l.notLeader())
		return true
	}
	if len(l.queue) >= proposalsMax || l.bytes+size > proposalBytesMax {
		l.mu.Unlock()
		return false
	}
	l.queue = append(l.queue, waiting{proposal, message, size})
	l.bytes += size
	l.mu.Unlock()
	return true
}

// Waiting returns how many proposals wait for the next entry.
func (l *Leadership) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue)
}

func (l *Leadership) notLeader() error {
	return api.E("raft.propose", api.NotLeader, l.self.id(), errors.New("the leadership is over"))
}

// entry is a log entry that was proposed and is not committed yet.
type entry struct {
	proposals []waiting
	future    raft.ApplyFuture
	began     time.Time
}

// propose writes what waits, several commands in one entry, until the leadership ends.
func (l *Leadership) propose() {
	defer close(l.stopped)
	flying := make(chan entry, entriesInFlightMax-2) // one more is being resolved, and one waits to be put here
	resolved := make(chan struct{})
	go func() {
		defer close(resolved)
		for e := range flying {
			l.resolve(e)
		}
	}()
	for l.waitForProposals() {
		if batch := l.take(); len(batch) > 0 {
			flying <- l.write(batch)
		}
	}
	close(flying)
	<-resolved
	l.machine.unsubscribe(l.subscriber)
	for _, p := range l.takeAll() {
		p.done(registry.Result{}, l.notLeader())
	}
}

func (l *Leadership) waitForProposals() bool {
	select {
	case <-l.over:
		return false
	case <-l.wake:
		return !l.ended()
	}
}

// take removes from the queue what fits in one entry.
func (l *Leadership) take() []waiting {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, size := 0, 0
	for n < len(l.queue) && (n == 0 || size+l.queue[n].size <= registrycodec.EntryBytesMax) {
		size += l.queue[n].size
		n++
	}
	batch := l.queue[:n:n]
	l.queue = l.queue[n:]
	l.bytes -= size
	if len(l.queue) > 0 {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
	return batch
}

func (l *Leadership) takeAll() []waiting {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.queue
	l.queue, l.bytes = nil, 0
	return all
}

func (l *Leadership) write(batch []waiting) entry {
	messages := make([]*logpb.Command, len(batch))
	for i, p := range batch {
		messages[i] = p.message
	}
	data, err := registrycodec.EncodeEntry(messages, l.machine.format())
	if err != nil { // can't happen, because each command was encoded before
		l.End("an entry can't be encoded: " + err.Error())
		return entry{proposals: batch}
	}
	return entry{batch, l.raft.apply(data), time.Now()}
}

// resolve waits for an entry and tells its proposers the outcome. Any failure ends the leadership, because later
// entries must not overtake one that failed.
func (l *Leadership) resolve(e entry) {
	err := l.outcome(e)
	if err != nil {
		l.End("an entry was not committed: " + err.Error())
		for _, p := range e.proposals {
			p.done(registry.Result{}, err)
		}
		return
	}
	if l.committed != nil {
		l.committed(len(e.proposals), time.Since(e.began))
	}
	results, ok := e.future.Response().([]registry.Result)
	for i, p := range e.proposals {
		if !ok || i >= len(results) { // this master can't apply the log; others can
			p.done(registry.Result{}, api.E("raft.propose", api.Unknown, l.self.id(), errors.New("this master can't apply the log")))
			continue
		}
		p.done(results[i], nil)
	}
}

// outcome classifies the library's errors: those after which the entry certainly was not written, and those after which
// it may yet be committed (P7).
func (l *Leadership) outcome(e entry) error {
	if e.future == nil {
		return l.notLeader()
	}
	err := e.future.Error()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return api.E("raft.propose", api.NotLeader, l.self.id(), err)
	}
	return api.E("raft.propose", api.Unknown, l.self.id(), err)
}
