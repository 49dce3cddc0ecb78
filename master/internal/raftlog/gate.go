package raftlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/internal/registrycodec"
	"github.com/tenderhq/tender/master/quorum"
	"github.com/tenderhq/tender/master/registry"
)

// snapshotCheckEvery is how often a leader checks that its newest snapshot can be read. A leader that can't read it
// would keep out for ever every follower that has fallen behind (P10).
const snapshotCheckEvery = time.Minute

// watchLeadership begins and ends leaderships until ctx ends, this master is removed, or something is wrong. again
// means that Raft must be started anew.
func (l *Log) watchLeadership(ctx context.Context, r *life) (again bool, err error) {
	defer func() { l.endLeadership("raft ends") }()
	check := time.NewTicker(snapshotCheckEvery)
	defer check.Stop()
	lonely := time.NewTicker(askOthersEvery)
	defer lonely.Stop()
	for {
		select {
		case <-ctx.Done():
			l.chatter.setQuiet(true)
			l.resignLeadership(r)
			return false, ctx.Err()
		case err := <-l.fatal:
			return false, api.E("raft.run", api.Internal, string(l.id()), howToMakeRoom(l.config.Dir, err))
		case <-check.C:
			err = l.checkLeader(r)
		case <-lonely.C:
			l.raiseFormat(ctx, r)
			l.agreeOnHash(ctx, r)
			l.correctAddresses(ctx, r)
			err = l.checkPlace(r)
		case request := <-l.requests:
			request(r)
		case <-l.full:
			l.asking.Go(func() { _ = r.snapshot().Error() }) // ends with Raft at the latest
		case <-l.look:
			again, err = l.lookAt(ctx, r)
		}
		if again || err != nil {
			return again, err
		}
	}
}

// lookAt compares Raft's state with what this package has made of it. A signal of a change may have been missed, so
// only the present state counts (P11).
func (l *Log) lookAt(ctx context.Context, r *life) (again bool, err error) {
	state, term := r.State(), r.CurrentTerm()
	current := l.currentLeadership()
	if current != nil && (state != raft.Leader || current.Term.Number != term) {
		l.endLeadership("another term has begun")
		current = nil
	}
	switch {
	case state == raft.Shutdown:
		return false, removed(l.id())
	case state != raft.Leader:
		return false, nil
	case current != nil && !current.ended():
		return false, nil
	case l.unusable != nil && l.unusable.Term.Number == term:
		return l.stepDown(r)
	}
	if err := l.checkEpoch(r); err != nil {
		return false, err
	}
	return l.openGate(ctx, r, term)
}

func (l *Log) currentLeadership() *Leadership {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leading
}

func (l *Log) endLeadership(why string) {
	l.mu.Lock()
	current := l.leading
	l.leading = nil
	l.mu.Unlock()
	if current != nil {
		current.end(why)
		within(patienceWithRaft, func() { <-current.stopped })
	}
}

// openGate makes sure that our registry is complete and that a majority still follows us. Then it delivers the
// leadership (P1, P2).
func (l *Log) openGate(ctx context.Context, r *life, term uint64) (again bool, err error) {
	began := time.Now()
	for {
		err := l.prepareRegistry(ctx, r)
		if err == nil {
			break
		}
		if ctx.Err() != nil || !r.leads() || r.CurrentTerm() != term {
			return false, nil //nolint:nilerr // somebody else leads; we will hear of the next change
		}
		if errors.Is(err, raft.ErrLeadershipTransferInProgress) && time.Since(began) > 5*timings[l.config.Profile].election {
			return false, wedged(l.id())
		}
		if fatal := (*api.Error)(nil); errors.As(err, &fatal) {
			return false, err
		}
		pause.For(ctx, timings[l.config.Profile].election/2)
	}
	if !r.leads() || r.CurrentTerm() != term {
		return false, nil
	}
	current := l.newLeadership(r, term)
	l.mu.Lock()
	l.leading = current
	l.mu.Unlock()
	l.unusable = current
	l.config.Logger.Info().Stringer("term", current.Term).Uint64("index", current.State.Index).
		Stringer("took", time.Since(began)).Msg("leading")
	l.deliverLeadership(current)
	l.raiseFormat(ctx, r)
	return false, nil
}

// deliverLeadership delivers a leadership. It replaces one that nobody has taken, because that one is over.
func (l *Log) deliverLeadership(current *Leadership) {
	for {
		select {
		case l.leaderships <- current:
			return
		default:
		}
		select {
		case <-l.leaderships:
		default:
		}
	}
}

// prepareRegistry makes our registry apply everything up to the beginning of this leadership.
func (l *Log) prepareRegistry(ctx context.Context, r *life) error {
	if err := await(ctx, l.barrier(r)); err != nil {
		return err
	}
	if err := l.settleRegistry(ctx, r); err != nil {
		return err
	}
	if err := l.moveAddress(ctx, r); err != nil {
		return err
	}
	return await(ctx, r.verify())
}

// moveAddress tells the quorum when this master has another address than at its last start. For example, a master that
// began alone on loopback may be joined by other machines later. While the membership lists another master at that
// address, ours has to wait (see correctAddresses).
func (l *Log) moveAddress(ctx context.Context, r *life) error {
	self := Peer{ID: l.id(), Addr: l.config.Advertise}
	for _, was := range r.members() {
		if was.ID == self.ID && was.Voter && was.Peer != self && quorum.Owner(r.members(), self.Addr) == "" {
			return await(ctx, r.addVoter(self))
		}
	}
	return nil
}

// settleRegistry names the cluster in a new registry, raises the epoch after a recovery, and refuses a registry of
// another cluster.
func (l *Log) settleRegistry(ctx context.Context, r *life) error {
	self, state := &l.folder.settings, l.machine.outline()
	if state.Cluster == "" {
		return l.applyChange(ctx, r, registry.Bootstrap{Cluster: self.Cluster})
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
		return l.applyChange(ctx, r, registry.RaiseEpoch{Epoch: self.Epoch})
	}
	return nil
}

func (l *Log) applyChange(ctx context.Context, r *life, change registry.Change) error {
	m, _, err := registrycodec.EncodeCommand(registry.Command{At: time.Now(), Change: change})
	if err != nil {
		return err
	}
	data, err := registrycodec.EncodeEntry(oneCommand(m), l.machine.format())
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
func (l *Log) stepDown(r *life) (again bool, err error) {
	l.endLeadership("stepping down")
	if l.resignLeadership(r) {
		return false, nil
	}
	pause.For(context.Background(), timings[l.config.Profile].election)
	return true, nil
}

// resignLeadership hands leadership to the most up-to-date master, if we lead and no transfer was tried in this term. A
// second transfer within one term can wedge the library (P3).
func (l *Log) resignLeadership(r *life) bool {
	if !r.leads() || !l.mayTransfer(r) {
		return false
	}
	l.endLeadership("handing over")
	next, _ := l.askWhoTakesOver(l.otherVoters(r, "")) // if none, the library picks one: there is nothing to lose
	return settled(r.handOver(next)) == nil
}

func (l *Log) mayTransfer(r *life) bool {
	others := len(l.otherVoters(r, ""))
	l.mu.Lock()
	defer l.mu.Unlock()
	term := r.CurrentTerm()
	if others == 0 || l.transferred == term {
		return false
	}
	l.transferred = term
	return true
}

// askOthersEvery is how often a master that knows no leader asks the others whether it is still a member.
const askOthersEvery = 2 * time.Second

// verified names the snapshot that a leader has read completely, and when it did.
type verified struct {
	id string
	at time.Time
}

// checkLeader reads a leader's newest snapshot: its head each time, and all of it, in a goroutine, when it is new or
// was not read for long.
func (l *Log) checkLeader(r *life) error {
	if !r.leads() {
		return nil
	}
	id, err := l.folder.checkSnapshotHead()
	if err != nil {
		return unreadable(l.config.Dir, err)
	}
	if now := time.Now(); id != l.verified.id || now.Sub(l.verified.at) > snapshotVerifyEvery {
		l.verified = verified{id, now}
		go func() { // ends with the file
			if _, err := l.folder.checkSnapshot(); err != nil {
				l.failRun(unreadable(l.config.Dir, err))
			}
		}()
	}
	return nil
}

// snapshotVerifyEvery is how often a leader reads all of its newest snapshot.
const snapshotVerifyEvery = 30 * time.Minute

func unreadable(dir string, err error) error {
	return api.E("raft.run", api.Unavailable, dir,
		fmt.Errorf("a leader must be able to read its snapshots: %w; mend or empty the folder", err))
}
