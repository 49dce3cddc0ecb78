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
	"github.com/tenderhq/tender/master/quorum"
)

// askOtherTimeout bounds the question to another follower about its log.
const askOtherTimeout = 100 * time.Millisecond

// successor carries out what package quorum decides about the succession of a dead leader.
type successor struct {
	config    *Config
	self      *identity
	network   *network
	raft      *life
	transport raft.Transport
	decides   quorum.Succession
}

// watch checks each leader whose connection to us was closed, until stop is called.
func (s *successor) watch(ctx context.Context, departed <-chan api.MasterID, founded bool) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var busy sync.WaitGroup
	busy.Go(func() {
		s.play(ctx, quorum.Begun{Founded: founded})
		for {
			select {
			case <-ctx.Done():
				return
			case id := <-departed:
				s.play(ctx, quorum.Left{Master: id})
			}
		}
	})
	return func() { cancel(); busy.Wait() }
}

// play passes an event to the decider, then the result of each step, until there is nothing to do.
func (s *successor) play(ctx context.Context, event any) {
	for event != nil && ctx.Err() == nil {
		event = s.perform(ctx, s.decides.Step(s.raft.view(s.self.id()), event))
	}
}

func (s *successor) perform(ctx context.Context, step quorum.SuccessionStep) (event any) {
	switch {
	case step.Reach != nil:
		_, err := s.network.askMember(*step.Reach, timings[s.config.Profile].election)
		return quorum.Reached{Answered: err == nil, Refused: errors.Is(err, syscall.ECONNREFUSED)}
	case step.Wait > 0:
		pause.For(ctx, step.Wait)
		return quorum.Waited{}
	case step.Compare != nil:
		return quorum.Compared{Last: s.endsOf(step.Compare)}
	case step.Meet != nil:
		return quorum.Met{All: s.meet(ctx, step.Meet)}
	case step.Stand:
		s.stand()
	}
	return nil
}

// endsOf asks the others, one after the other, where their logs end.
func (s *successor) endsOf(others []quorum.Member) map[api.MasterID]uint64 {
	last := make(map[api.MasterID]uint64)
	for _, m := range others {
		if answer, err := s.network.askMember(m.Peer, askOtherTimeout); err == nil {
			last[m.ID] = answer.Last
		}
	}
	return last
}

// meet waits until all others take part, but not longer than it would take to notice the silence.
func (s *successor) meet(ctx context.Context, others []quorum.Member) bool {
	ctx, cancel := context.WithTimeout(ctx, timings[s.config.Profile].heartbeat)
	defer cancel()
	for _, m := range others {
		for !s.network.takesPart(m) {
			if pause.For(ctx, meetAgainAfter); ctx.Err() != nil {
				return false
			}
		}
	}
	return true
}

const meetAgainAfter = 20 * time.Millisecond

// stand begins an election in which we are the candidate.
func (s *successor) stand() {
	self, addr := s.self.server(), raft.ServerAddress(s.config.Advertise)
	s.config.Logger.Info().Msg("nobody can lead; this master stands for election at once")
	header := raft.RPCHeader{
		ProtocolVersion: raft.ProtocolVersionMax,
		ID:              []byte(self),
		Addr:            s.transport.EncodePeer(self, addr),
	}
	var answer raft.TimeoutNowResponse
	err := s.transport.TimeoutNow(self, addr, &raft.TimeoutNowRequest{RPCHeader: header}, &answer)
	if err != nil {
		s.config.Logger.Debug().Err(err).Msg("no election could be begun; one begins by timeout")
	}
}
