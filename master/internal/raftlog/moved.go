package raftlog

import (
	"context"
	"sync"

	"github.com/tenderhq/tender/master/quorum"
)

// moves knows the masters whose addresses differ from those in the membership, for everything that dials them.
type moves struct {
	mu      sync.Mutex
	decides quorum.Moves // guarded by mu
	// asking is held while one master is looked for. What another master says meanwhile is ignored, because it says it
	// again.
	asking sync.Mutex
}

func (m *moves) under(do func(*quorum.Moves)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	do(&m.decides)
}

// where returns the address at which a master of the membership is now.
func (m *moves) where(peer Peer) (addr string) {
	m.under(func(d *quorum.Moves) { addr = d.Where(peer) })
	return addr
}

// heardFrom takes in what a master says about its own address. If we dial it at another one, it looks for the master at
// both.
func (l *Log) heardFrom(peer Peer) {
	r, moves := l.runningRaft(), &l.network.moves
	if r == nil || peer.ID == l.ID() || !moves.asking.TryLock() {
		return
	}
	defer moves.asking.Unlock()
	var doubt quorum.Doubt
	doubted := false
	moves.under(func(d *quorum.Moves) { doubt, doubted = d.Heard(peer, r.members()) })
	if !doubted || !l.isAt(doubt.Says) {
		return
	}
	if l.isAt(doubt.Dialed) {
		l.config.Logger.Warn().Str("master", string(peer.ID)).Str("address", doubt.Dialed.Addr).Str("also", peer.Addr).
			Msg("a master answers at two addresses, and is left at the first; unless both lead to one process, its folder was copied")
		return
	}
	moves.under(func(d *quorum.Moves) { d.Moved(doubt) })
	l.config.Logger.Info().Str("master", string(peer.ID)).Str("was", doubt.Listed.Addr).Str("address", peer.Addr).Msg("a master is at another address")
}

func (l *Log) isAt(peer Peer) bool {
	answer, err := l.network.ask(peer.Addr, askTimeout)
	return err == nil && answer.ID == peer.ID && answer.Cluster == l.Cluster()
}

// correctAddresses brings the masters' present addresses into the membership. Each master writes its own address when
// it leads (moveAddress). So leadership goes to a follower of ours that has moved. The leader must not change the
// address of a follower while it talks to it, because the library reads that address without a lock.
func (l *Log) correctAddresses(ctx context.Context, r *life) {
	var unlisted []Peer
	l.network.moves.under(func(d *quorum.Moves) {
		d.Keep(r.members())
		unlisted = d.Unlisted(r.members())
	})
	if !r.leads() || l.currentLeadership() == nil {
		return
	}
	if err := l.moveAddress(ctx, r); err != nil {
		return // tried again at the next look
	}
	for _, now := range unlisted {
		if !l.silentSince(now.ID).IsZero() {
			continue
		}
		answer, err := l.network.ask(now.Addr, askOtherTimeout)
		if err != nil || answer.ID != now.ID || answer.Last+caughtUpWithin < r.LastIndex() {
			continue
		}
		l.network.moves.under(func(d *quorum.Moves) { d.Handed(now) })
		l.config.Logger.Info().Str("master", string(now.ID)).Str("address", now.Addr).Msg("making this master the leader, so that it can announce its new address")
		if err := l.transferLeadership(r, now.ID); err != nil {
			l.config.Logger.Warn().Err(err).Str("master", string(now.ID)).Msg("it does not")
		}
		return
	}
}

// reachedMembers returns a membership with present addresses: our own, the leader's, and those at which we reach the
// others. The caller holds l.mu.
func (l *Log) reachedMembers(all []quorum.Member) []quorum.Member {
	leaderAddr, leader := l.raft.LeaderWithID()
	for i := range all {
		all[i].Addr = l.network.moves.where(all[i].Peer)
		switch all[i].ID {
		case l.said.ID:
			all[i].Addr = l.config.Advertise
		case idOf(leader):
			all[i].Addr = string(leaderAddr)
		}
	}
	return all
}
