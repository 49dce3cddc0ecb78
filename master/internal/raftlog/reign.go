package raftlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/logpb"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/internal/registrycodec"
	"github.com/tenderhq/tender/master/quorum"
	"github.com/tenderhq/tender/master/registry"
)

// reign is whether this master leads, from the moment at which Raft says so until its leadership is over: the gate
// behind which a leader may lead, the one leadership that there is at a time, and how it is handed over. It leads in no
// term twice (P3), and in none whose registry is not complete.
type reign struct {
	config  *Config
	folder  *folder // Run's goroutine only
	machine *machine
	loop    *loop
	self    *identity
	others  *others

	leaderships chan *Leadership
	barrier     func(*life) raft.Future // issues Raft's barrier; a test can make it fail
	// unusable is the last leadership, whose term can't be used again. Run's goroutine only.
	unusable *Leadership

	mu      sync.Mutex
	leading *Leadership // guarded by mu
	// transferred is the last term in which we tried to hand leadership over (P3).
	transferred uint64 // guarded by mu
}

// current returns the leadership that is delivered and not over; nil if there is none.
func (g *reign) current() *Leadership {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.leading
}

// end shuts the gate, and returns when the leadership has ended.
func (g *reign) end(why string) {
	g.mu.Lock()
	current := g.leading
	g.leading = nil
	g.mu.Unlock()
	if current != nil {
		current.end(why)
		within(patienceWithRaft, func() { <-current.stopped })
	}
}

// openGate makes sure that our registry is complete and that a majority still follows us. Then it delivers the
// leadership (P1, P2).
func (g *reign) openGate(ctx context.Context, r *life, term uint64) (again bool, err error) {
	began := time.Now()
	for {
		err := g.prepareRegistry(ctx, r)
		if err == nil {
			break
		}
		if ctx.Err() != nil || !r.leads() || r.CurrentTerm() != term {
			return false, nil //nolint:nilerr // somebody else leads; we will hear of the next change
		}
		if errors.Is(err, raft.ErrLeadershipTransferInProgress) && time.Since(began) > 5*timings[g.config.Profile].election {
			return false, wedged(g.self.id())
		}
		if fatal := (*api.Error)(nil); errors.As(err, &fatal) {
			return false, err
		}
		pause.For(ctx, timings[g.config.Profile].election/2)
	}
	if !r.leads() || r.CurrentTerm() != term {
		return false, nil
	}
	current := g.newLeadership(r, term)
	g.mu.Lock()
	g.leading = current
	g.mu.Unlock()
	g.unusable = current
	g.config.Logger.Info().Stringer("term", current.Term).Uint64("index", current.State.Index).
		Stringer("took", time.Since(began)).Msg("leading")
	g.deliver(current)
	return false, nil
}

// deliver delivers a leadership. It replaces one that nobody has taken, because that one is over.
func (g *reign) deliver(current *Leadership) {
	for {
		select {
		case g.leaderships <- current:
			return
		default:
		}
		select {
		case <-g.leaderships:
		default:
		}
	}
}

// prepareRegistry makes our registry apply everything up to the beginning of this leadership.
func (g *reign) prepareRegistry(ctx context.Context, r *life) error {
	if err := await(ctx, g.barrier(r)); err != nil {
		return err
	}
	if err := g.settleRegistry(ctx, r); err != nil {
		return err
	}
	if err := g.moveAddress(ctx, r); err != nil {
		return err
	}
	return await(ctx, r.verify())
}

// moveAddress tells the quorum when this master has another address than at its last start. For example, a master that
// began alone on loopback may be joined by other machines later. While the membership lists another master at that
// address, ours has to wait (see correctAddresses).
func (g *reign) moveAddress(ctx context.Context, r *life) error {
	self := Peer{ID: g.self.id(), Addr: g.config.Advertise}
	for _, was := range r.members() {
		if was.ID == self.ID && was.Voter && was.Peer != self && quorum.Owner(r.members(), self.Addr) == "" {
			return await(ctx, r.addVoter(self))
		}
	}
	return nil
}

// settleRegistry names the cluster in a new registry, raises the epoch after a recovery, and refuses a registry of
// another cluster.
func (g *reign) settleRegistry(ctx context.Context, r *life) error {
	self, state := &g.folder.settings, g.machine.outline()
	if state.Cluster == "" {
		return g.applyChange(ctx, r, registry.Bootstrap{Cluster: self.Cluster})
	}
	if state.Cluster != self.Cluster {
		return api.E("raft.run", api.Invalid, string(self.Cluster),
			fmt.Errorf("the folder's registry is of %s; its files were mixed up", state.Cluster))
	}
	if self.Epoch > state.Epoch+protocol.EpochsMax {
		return api.E("raft.run", api.Invalid, string(self.Cluster), fmt.Errorf("the folder names epoch %d, impossibly far ahead of %d, that of its registry: "+
			"no agent would follow; it is damaged: remove this master and add it again with a fresh folder", self.Epoch, state.Epoch))
	}
	if self.Epoch > state.Epoch {
		return g.applyChange(ctx, r, registry.RaiseEpoch{Epoch: self.Epoch})
	}
	return nil
}

// applyChange writes one change of our own to the log, and returns when it is committed.
func (g *reign) applyChange(ctx context.Context, r *life, change registry.Change) error {
	m, _, err := registrycodec.EncodeCommand(registry.Command{At: time.Now(), Change: change})
	if err != nil {
		return err
	}
	data, err := registrycodec.EncodeEntry([]*logpb.Command{m}, g.machine.format())
	if err != nil {
		return err
	}
	return await(ctx, r.apply(data))
}

// wedged is the error for hashicorp/raft#696: after a leadership transfer that went wrong the library refuses every
// write for ever. Only a new process helps (P3).
func wedged(id api.MasterID) error {
	return api.E("raft.run", api.Internal, string(id),
		errors.New("raft leads but refuses writes because of a leadership transfer that has long ended (hashicorp/raft#696); restart this master"))
}

// stepDown leaves a leadership that we may not use. It hands over to another voter, or asks for a new start of Raft,
// which begins as a follower.
func (g *reign) stepDown(r *life) (again bool, err error) {
	g.end("stepping down")
	if g.resign(r) {
		return false, nil
	}
	pause.For(context.Background(), timings[g.config.Profile].election)
	return true, nil
}

// resign hands leadership to the most up-to-date master, if we lead and no transfer was tried in this term. A
// second transfer within one term can wedge the library (P3).
func (g *reign) resign(r *life) bool {
	if !r.leads() || !g.mayTransfer(r) {
		return false
	}
	g.end("handing over")
	next, _ := g.others.askWhoTakesOver(g.others.otherVoters(r, "")) // if none, the library picks one: there is nothing to lose
	return settled(r.handOver(next)) == nil
}

// mayTransfer reports whether there is another voter, and no transfer was tried in this term; from now on one was.
func (g *reign) mayTransfer(r *life) bool {
	others := len(g.others.otherVoters(r, ""))
	g.mu.Lock()
	defer g.mu.Unlock()
	term := r.CurrentTerm()
	if others == 0 || g.transferred == term {
		return false
	}
	g.transferred = term
	return true
}

// askOthersEvery is how often a master that knows no leader asks the others whether it is still a member.
const askOthersEvery = 2 * time.Second

// newLeadership begins a leadership: from now on it is told of each commit, and takes proposals.
func (g *reign) newLeadership(r *life, term uint64) *Leadership {
	lead := &Leadership{
		self: g.self, loop: g.loop, machine: g.machine, committed: g.config.Committed, raft: r,
		over: make(chan struct{}), stopped: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	lead.State, lead.subscriber = g.machine.subscribe(lead.End)
	lead.Term = api.Term{Epoch: lead.State.Epoch, Number: term}
	g.loop.asking.Go(lead.propose)
	return lead
}

func (g *reign) transfer(r *life, to api.MasterID) error {
	const op = "raft.transfer"
	addr := ""
	for _, m := range r.members() {
		if m.ID == to && m.Voter {
			addr = m.Addr
		}
	}
	switch {
	case r.State() != raft.Leader:
		return api.E(op, api.NotLeader, to, errors.New("another master leads"))
	case to == g.self.id():
		return nil
	case to != "" && addr == "":
		return api.E(op, api.NotFound, to, errors.New("no such voter is in the quorum"))
	case !g.mayTransfer(r):
		return api.E(op, api.Unavailable, to, errors.New("there is no other voter, or a transfer was tried in this term already"))
	}
	g.end("handing over")
	if err := settled(r.handOver(Peer{ID: to, Addr: addr})); err != nil {
		g.loop.lookAgain() // we still lead, but can't use this term any more
		return api.E(op, api.Unavailable, to, err)
	}
	return nil
}
