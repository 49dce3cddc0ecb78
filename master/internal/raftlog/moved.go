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
func (o *others) heardFrom(peer Peer) {
	r, moves := o.engine.running(), &o.network.moves
	if r == nil || peer.ID == o.self.id() || !moves.asking.TryLock() {
		return
	}
	defer moves.asking.Unlock()
	var doubt quorum.Doubt
	doubted := false
	moves.under(func(d *quorum.Moves) { doubt, doubted = d.Heard(peer, r.members()) })
	if !doubted || !o.isAt(doubt.Says) {
		return
	}
	if o.isAt(doubt.Dialed) {
		o.config.Logger.Warn().Str("master", string(peer.ID)).Str("address", doubt.Dialed.Addr).Str("also", peer.Addr).
			Msg("a master answers at two addresses, and is left at the first; unless both lead to one process, its folder was copied")
		return
	}
	moves.under(func(d *quorum.Moves) { d.Moved(doubt) })
	o.config.Logger.Info().Str("master", string(peer.ID)).Str("was", doubt.Listed.Addr).Str("address", peer.Addr).Msg("a master is at another address")
}

func (o *others) isAt(peer Peer) bool {
	answer, err := o.network.ask(peer.Addr, askTimeout)
	return err == nil && answer.ID == peer.ID && answer.Cluster == o.self.cluster()
}

// correctAddresses brings the masters' present addresses into the membership. Each master writes its own address when
// it leads (moveAddress). So leadership goes to a follower of ours that has moved. The leader must not change the
// address of a follower while it talks to it, because the library reads that address without a lock.
func (m *Members) correctAddresses(ctx context.Context, r *life) {
	var unlisted []Peer
	m.network.moves.under(func(d *quorum.Moves) {
		d.Keep(r.members())
		unlisted = d.Unlisted(r.members())
	})
	if !r.leads() || m.reign.current() == nil {
		return
	}
	if err := m.reign.moveAddress(ctx, r); err != nil {
		return // tried again at the next look
	}
	for _, now := range unlisted {
		if !m.others.silentSince(now.ID).IsZero() {
			continue
		}
		answer, err := m.network.ask(now.Addr, askOtherTimeout)
		if err != nil || answer.ID != now.ID || answer.Last+caughtUpWithin < r.LastIndex() {
			continue
		}
		m.network.moves.under(func(d *quorum.Moves) { d.Handed(now) })
		m.config.Logger.Info().Str("master", string(now.ID)).Str("address", now.Addr).Msg("making this master the leader, so that it can announce its new address")
		if err := m.reign.transfer(r, now.ID); err != nil {
			m.config.Logger.Warn().Err(err).Str("master", string(now.ID)).Msg("it does not")
		}
		return
	}
}

// presentMembers returns the membership with present addresses: our own, the leader's, and those at which we reach the
// others.
func (o *others) presentMembers(r *life) []quorum.Member {
	all, self := r.members(), o.self.id()
	leaderAddr, leader := r.LeaderWithID()
	for i := range all {
		all[i].Addr = o.network.moves.where(all[i].Peer)
		switch all[i].ID {
		case self:
			all[i].Addr = o.config.Advertise
		case idOf(leader):
			all[i].Addr = string(leaderAddr)
		}
	}
	return all
}
