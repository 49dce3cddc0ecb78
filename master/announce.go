package master

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/internal/guard"
	"github.com/tenderhq/tender/master/internal/raftlog"
	"github.com/tenderhq/tender/master/registry"
)

const (
	// announceEvery is how often a master checks whether the registry has its addresses right.
	announceEvery = time.Second
	// announceSoon is how soon it does so after it has heard of another leader. Each further check waits for twice as
	// long, up to announceEvery.
	announceSoon = 50 * time.Millisecond
	// announceTimeout bounds one announcement.
	announceTimeout = 5 * time.Second
)

// announce keeps the registry's entry about this master right. A leader checks its own entry when its leadership begins
// (introduce); a follower asks the leader to change it. People's commands learn from the registry where all masters are,
// so a master that has just joined is announced soon.
func (m *Master) announce(ctx context.Context) {
	timer := time.NewTimer(announceEvery)
	defer timer.Stop()
	for wait := announceSoon; ; wait = min(2*wait, announceEvery) {
		news := m.news.wait()
		if m.leading.Load() != nil {
			if err := m.listeners.proof.registrar.EnsureFirst(ctx); err != nil && ctx.Err() == nil {
				m.log.Debug().Err(err).Msg("the token of the first operator was not made yet")
			}
		}
		if id, address := m.Leader(); id != "" && id != m.config.ID && address != "" {
			if m.raft.Outline().Masters[m.config.ID] != m.self() {
				if err := m.announceTo(ctx, address); err != nil && ctx.Err() == nil {
					m.log.Debug().Err(err).Str("leader", address).Msg("the leader was not told of this master")
				}
			}
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-news: // another master may lead, and what it says of the others comes in a moment
			wait = announceSoon / 2
		case <-timer.C:
		}
	}
}

func (m *Master) announceTo(ctx context.Context, address string) error {
	self := m.self()
	return m.callMaster(ctx, address, announceTimeout, func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := apiv1.NewMasterServiceClient(conn).Announce(ctx, &apiv1.AnnounceRequest{
			ClusterId: string(m.raft.Cluster()), Id: string(m.config.ID),
			GrpcAddress: self.GRPC, HttpAddress: self.HTTP, RaftAddress: self.Raft, Version: self.Version, Allocator: self.Allocator,
		})
		return err
	})
}

// callMaster makes a call to another master, on a connection of its own, within the given time.
func (m *Master) callMaster(ctx context.Context, address string, most time.Duration, call func(context.Context, *grpc.ClientConn) error) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	conn, err := m.dial(address)
	if err != nil {
		return err
	}
	defer conn.Close()
	return call(ctx, conn)
}

type masterService struct {
	apiv1.UnimplementedMasterServiceServer
	master *Master
}

// Announce records the addresses of a member of the quorum.
func (s masterService) Announce(ctx context.Context, request *apiv1.AnnounceRequest) (*apiv1.AnnounceResponse, error) {
	const op = "master.announce"
	m := s.master
	l := m.leading.Load()
	if l == nil {
		return nil, wire.Status(m.notLeader(op))
	}
	id := api.MasterID(request.Id)
	isMember := slices.ContainsFunc(m.raft.Members.Status().Members, func(member raftlog.Member) bool { return member.ID == id })
	switch caller := guard.CallerOf(ctx); {
	case caller.Kind == rights.Master && caller.Name != request.Id:
		return nil, wire.Status(api.E(op, api.Denied, id, fmt.Errorf("master %s speaks for itself alone", caller.Name)))
	case api.ClusterID(request.ClusterId) != m.raft.Cluster():
		return nil, wire.Status(api.E(op, api.Denied, id, fmt.Errorf("it is of cluster %q, this is %s", request.ClusterId, m.raft.Cluster())))
	case !isMember:
		return nil, wire.Status(api.E(op, api.NotFound, id, errors.New("it is no member of this quorum")))
	}
	record := registry.Master{
		GRPC: request.GrpcAddress, HTTP: request.HttpAddress, Raft: request.RaftAddress,
		Version: request.Version, Allocator: request.Allocator,
	}
	if err := l.commit(ctx, op, registry.SetMaster{ID: id, Master: record}); err != nil {
		return nil, wire.Status(err)
	}
	return &apiv1.AnnounceResponse{}, nil
}

// leaderWaitMax bounds how long a client may wait to hear of a new leader.
const leaderWaitMax = 5 * time.Second

// Leader waits until there is a leader of a newer term than the one that the client names.
func (s masterService) Leader(ctx context.Context, request *apiv1.LeaderRequest) (*apiv1.LeaderResponse, error) {
	m, after := s.master, wire.TermFromProto(request.GetAfter())
	timer := time.NewTimer(leaderWaitMax)
	defer timer.Stop()
	for {
		news := m.news.wait()
		if id, address, term := m.leaderInTerm(); address != "" && after.Before(term) {
			return &apiv1.LeaderResponse{Term: wire.TermToProto(term), Id: string(id), GrpcAddress: address}, nil
		}
		select {
		case <-news:
			continue
		case <-timer.C:
		case <-ctx.Done():
		}
		return nil, wire.Status(api.E("master.leader", api.Unavailable, m.config.ID, fmt.Errorf("no leader after term %s is known here", after)))
	}
}

// leaderInTerm returns the leader, its gRPC address and its term, as far as this master knows.
func (m *Master) leaderInTerm() (id api.MasterID, address string, term api.Term) {
	if l := m.leading.Load(); l != nil {
		return m.config.ID, m.GRPCAddr(), l.lead.Term
	}
	id, number := m.raft.Members.LeaderInTerm()
	if id == "" || id == m.config.ID {
		return "", "", api.Term{}
	}
	state := m.raft.Outline()
	return id, state.Masters[id].GRPC, api.Term{Epoch: state.Epoch, Number: number}
}

// commit proposes a change that does no harm when it is applied twice, and waits for the outcome.
func (l *leader) commit(ctx context.Context, op string, change registry.Change) error {
	done := make(chan error, 1)
	taken := l.lead.Propose(raftlog.Proposal{
		Command: registry.Command{At: time.Now(), Change: change},
		Done: func(result registry.Result, err error) {
			if err == nil && result.Err != nil {
				err = result.Err
			}
			done <- err
		},
	})
	if !taken {
		return api.E(op, api.Unavailable, "", errors.New("too much is on its way to the quorum"))
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return api.E(op, api.Unknown, "", errors.New("given up before the outcome was known"))
	}
}
