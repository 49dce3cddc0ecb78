package raftlog

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/api"
)

// A master that was started at another address than the quorum's membership says is
// reached by nobody, and asks the others each lonelyCheckEvery, as every master without a
// leader does. It says where it is. Who is asked convinces itself that it is there and not
// at the old address as well, and from then on dials it there, so that votes can be asked
// for even when most of the masters have moved. Then the membership is corrected.

// handedMax is how often leadership is handed over because of one move: a failure disturbs.
const handedMax = 3

// moves are the masters that are elsewhere than the membership says.
type moves struct {
	mu     sync.Mutex
	now    map[Peer]string // by what the membership says; no other keys. guarded by mu
	handed map[Peer]int    // how often leadership was to go to it for this address; Run's goroutine only
	asking sync.Mutex      // one is looked for at a time; who comes meanwhile says it again
}

// where a master of the membership is.
func (m *moves) where(peer Peer) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now, moved := m.now[peer]; moved {
		return now
	}
	return peer.Addr
}

func (m *moves) set(was Peer, now string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if was.Addr == now {
		delete(m.now, was)
		return
	}
	if m.now == nil {
		m.now = map[Peer]string{}
	}
	m.now[was] = now
}

// keep forgets what the membership does not say any more: somebody else may get the address.
func (m *moves) keep(servers []raft.Server) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for was := range m.now { // order: irrelevant because each is deleted by itself
		if !slices.ContainsFunc(servers, func(s raft.Server) bool { return listed(s) == was }) {
			delete(m.now, was)
		}
	}
}

func listed(s raft.Server) Peer { return Peer{api.MasterID(s.ID), string(s.Address)} }

// heardFrom looks for a master that says where it is, if that is not where we dial it.
func (l *Log) heardFrom(peer Peer) {
	r, moves := l.running(), &l.network.moves
	if r == nil || peer.Addr == "" || peer.ID == l.ID() || !moves.asking.TryLock() {
		return
	}
	defer moves.asking.Unlock()
	servers := r.GetConfiguration().Configuration().Servers
	at := slices.IndexFunc(servers, func(s raft.Server) bool { return api.MasterID(s.ID) == peer.ID })
	if at < 0 {
		return
	}
	was := listed(servers[at])
	moves.keep(servers)
	where := moves.where(was)
	if where == peer.Addr || !l.isAt(peer) {
		return
	}
	if l.isAt(Peer{peer.ID, where}) {
		l.config.Logger.Warn().Str("master", string(peer.ID)).Str("address", where).Str("also", peer.Addr).
			Msg("a master answers at two addresses, and is left at the first; unless both lead to one process, its folder was copied")
		return
	}
	moves.set(was, peer.Addr)
	l.config.Logger.Info().Str("master", string(peer.ID)).Str("was", was.Addr).Str("address", peer.Addr).Msg("a master is at another address")
}

// whose address it is by the membership.
func (l *Log) whose(addr string) api.MasterID {
	if r := l.running(); r != nil {
		for _, server := range r.GetConfiguration().Configuration().Servers {
			if string(server.Address) == addr {
				return api.MasterID(server.ID)
			}
		}
	}
	return ""
}

func (l *Log) isAt(peer Peer) bool {
	answer, err := l.askThere(peer, askTimeout)
	return err == nil && answer.ID == peer.ID && answer.Cluster == l.Cluster()
}

// correct brings into the membership where the masters are now. Each writes its own address
// when it leads (readdress), so leadership goes to one that has moved and follows us: the
// library's leader must not be told of another address for a follower whom it speaks with, as
// it reads that without a lock. An address that is still another's has to wait, as no two may
// be the same: masters that have exchanged theirs are found by what each one knows of moves.
func (l *Log) correct(ctx context.Context, r *life) {
	servers, moves := r.GetConfiguration().Configuration().Servers, &l.network.moves
	moves.keep(servers)
	maps.DeleteFunc(moves.handed, func(peer Peer, _ int) bool {
		return slices.ContainsFunc(servers, func(s raft.Server) bool { return listed(s) == peer })
	})
	if r.State() != raft.Leader || l.current() == nil {
		return
	}
	if err := l.readdress(ctx, r); err != nil {
		return // met again at the next look
	}
	for _, server := range servers {
		now := Peer{api.MasterID(server.ID), moves.where(listed(server))}
		if server.Suffrage != raft.Voter || now == listed(server) || l.whose(now.Addr) != "" ||
			!l.silentSince(now.ID).IsZero() || moves.handed[now] >= handedMax {
			continue
		}
		answer, err := l.network.ask(now.Addr, askOtherTimeout)
		if err != nil || answer.ID != now.ID || answer.Last+caughtUpWithin < r.LastIndex() {
			continue
		}
		if moves.handed == nil {
			moves.handed = map[Peer]int{}
		}
		moves.handed[now]++
		l.config.Logger.Info().Str("master", string(now.ID)).Str("address", now.Addr).Msg("it is to lead, to tell its new address")
		if err := l.transfer(r, now.ID); err != nil {
			l.config.Logger.Warn().Err(err).Str("master", string(now.ID)).Msg("it does not")
		}
		return
	}
}

func (l *Log) askThere(peer Peer, timeout time.Duration) (about, error) {
	return l.network.ask(peer.Addr, timeout)
}

// reached is a membership with the addresses at which we and the leader are, and at which
// we reach the others. The caller holds l.mu.
func (l *Log) reached(all []member) []member {
	leaderAddr, leader := l.raft.LeaderWithID()
	for i := range all {
		all[i].Addr = l.network.moves.where(all[i].Peer)
		switch all[i].ID {
		case l.said.ID:
			all[i].Addr = l.config.Advertise
		case api.MasterID(leader):
			all[i].Addr = string(leaderAddr)
		}
	}
	return all
}

// elsewhere are addresses at which other masters may be, beside those of the membership:
// what the operator names, and what others say.
func (l *Log) elsewhere(all []member, answers map[api.MasterID]about) (more []member) {
	consider := func(peer Peer, voter bool) {
		if isMember(all, peer.ID) && !slices.ContainsFunc(slices.Concat(all, more), func(m member) bool { return m.Peer == peer }) {
			more = append(more, member{peer, voter})
		}
	}
	for _, peer := range l.config.Peers {
		consider(peer, true)
	}
	for _, answer := range answers { // order: irrelevant because all are asked at once
		if answer.Cluster != l.Cluster() {
			continue
		}
		for _, m := range answer.Members {
			consider(m.Peer, m.Voter)
		}
	}
	return more
}
