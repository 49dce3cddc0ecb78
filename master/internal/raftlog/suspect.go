package raftlog

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/pause"
)

// A leader's process that has died is known at once: its connections are closed, and
// its machine refuses new ones. Nobody has to wait for silence to become suspicious
// then, so the heartbeat timeout can be long enough for machines that are short of
// processors. An election that begins for this reason is as safe as any other.

const (
	// refusalTriesMax and refusalPause: a dying process closes its connections a little before its listener, so
	// the first attempts to connect may not be refused yet.
	refusalTriesMax = 10
	refusalPause    = 20 * time.Millisecond
	// rankPause is between two followers' attempts to follow the leader, so that
	// they do not split the votes.
	rankPause = 300 * time.Millisecond
	// electionPause is what an election may take before the next follower tries.
	electionPause = 400 * time.Millisecond
	// askOtherTimeout bounds the question after another follower's log.
	askOtherTimeout = 100 * time.Millisecond
)

// hasLeft hears of each closed connection. Whoever is not heard is found by silence.
func (l *Log) hasLeft(id api.MasterID) {
	select {
	case l.departed <- id:
	default:
	}
}

// suspect looks after each leader whose connection to us was closed, until stop.
func (l *Log) suspect(ctx context.Context, r *life, transport raft.Transport) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var busy sync.WaitGroup
	busy.Go(func() {
		l.begin(ctx, r, transport)
		for {
			select {
			case <-ctx.Done():
				return
			case id := <-l.departed:
				if l.isDead(ctx, r, id) {
					l.follow(ctx, r, transport, id)
				}
			}
		}
	})
	return func() { cancel(); busy.Wait() }
}

// leads says whether a master leads as far as we know, who follow it.
func leads(r *life, id api.MasterID) bool {
	_, leader := r.LeaderWithID()
	return r.State() == raft.Follower && api.MasterID(leader) == id
}

// isDead asks a leader's machine. Only a refused connection is an answer: whatever
// else goes wrong may be the network's fault, or ours.
func (l *Log) isDead(ctx context.Context, r *life, id api.MasterID) bool {
	for range refusalTriesMax {
		if !leads(r, id) || ctx.Err() != nil {
			return false
		}
		addr, _ := r.LeaderWithID()
		_, err := l.network.askMember(Peer{id, string(addr)}, timings[l.config.Profile].election)
		switch {
		case err == nil:
			return false
		case errors.Is(err, syscall.ECONNREFUSED):
			return true
		}
		pause.For(ctx, refusalPause)
	}
	return false
}

// follow begins an election in the place of a leader that is dead, if it is our turn.
func (l *Log) follow(ctx context.Context, r *life, transport raft.Transport, dead api.MasterID) {
	term := r.CurrentTerm()
	rank := l.rank(r, dead)
	if rank < 0 {
		return
	}
	pause.For(ctx, time.Duration(rank)*rankPause)
	if r.CurrentTerm() != term { // somebody was faster: time to win
		pause.For(ctx, electionPause)
	}
	if _, leader := r.LeaderWithID(); ctx.Err() != nil || r.State() != raft.Follower || leader != "" && api.MasterID(leader) != dead {
		return
	}
	l.config.Logger.Info().Str("leader", string(dead)).Msg("the leader's process is dead: following it")
	l.stand(transport)
}

// begin does not wait for the silence of a leader that there can't be: when we are the
// only voter, or the first of those that have just founded the cluster, once all are there.
func (l *Log) begin(ctx context.Context, r *life, transport raft.Transport) {
	others := l.otherVoters(r)
	if l.rank(r, "") != 0 || len(others) > 0 && !l.founded {
		return
	}
	began := time.Now()
	for _, peer := range others {
		for !l.network.takesPart(peer) {
			if pause.For(ctx, refusalPause); ctx.Err() != nil || time.Since(began) > timings[l.config.Profile].heartbeat {
				return // who comes later is waited for as usual
			}
		}
	}
	if addr, _ := r.LeaderWithID(); addr == "" && r.State() == raft.Follower {
		l.stand(transport)
	}
}

func (l *Log) otherVoters(r *life) (others []Peer) {
	for _, server := range r.GetConfiguration().Configuration().Servers {
		if id := api.MasterID(server.ID); server.Suffrage == raft.Voter && id != l.ID() {
			others = append(others, Peer{id, string(server.Address)})
		}
	}
	return others
}

// stand begins an election in which we are the candidate.
func (l *Log) stand(transport raft.Transport) {
	self := Peer{l.ID(), l.config.Advertise}
	header := raft.RPCHeader{
		ProtocolVersion: raft.ProtocolVersionMax,
		ID:              []byte(self.ID),
		Addr:            transport.EncodePeer(raft.ServerID(self.ID), raft.ServerAddress(self.Addr)),
	}
	var answer raft.TimeoutNowResponse
	err := transport.TimeoutNow(raft.ServerID(self.ID), raft.ServerAddress(self.Addr), &raft.TimeoutNowRequest{RPCHeader: header}, &answer)
	if err != nil {
		l.config.Logger.Debug().Err(err).Msg("no election could be begun; silence will begin one")
	}
}

// rank is our place among the voters that are left, by ID; -1: we do not stand, because
// we have no vote, or because another one's log is longer: it may not vote for us, and
// our election would only spoil its own. dead "" is nobody, and then only IDs count.
func (l *Log) rank(r *life, dead api.MasterID) int {
	rank, votes := 0, false
	for _, server := range r.GetConfiguration().Configuration().Servers {
		id := api.MasterID(server.ID)
		switch {
		case server.Suffrage != raft.Voter || id == dead:
		case id == l.ID():
			votes = true
		default:
			last, ours := l.lastOf(r, server, dead != ""), r.LastIndex()
			if last > ours {
				return -1
			}
			if last == ours && id < l.ID() {
				rank++
			}
		}
	}
	if !votes {
		return -1
	}
	return rank
}

// lastOf is where a voter's log ends; of one that does not answer, or is not asked, where
// ours does.
func (l *Log) lastOf(r *life, server raft.Server, ask bool) uint64 {
	if ask {
		if answer, err := l.network.askMember(listed(server), askOtherTimeout); err == nil {
			return answer.Last
		}
	}
	return r.LastIndex()
}
