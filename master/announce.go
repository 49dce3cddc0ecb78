package master

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/internal/guard"
	"github.com/tenderhq/tender/master/internal/raftlog"
	"github.com/tenderhq/tender/master/registry"
)

type masterService struct {
	apiv1.UnimplementedMasterServiceServer
	config  *Config
	raft    *raftlog.Log
	leading *leadership
}

// Announce records the addresses of a member of the quorum.
func (s masterService) Announce(ctx context.Context, request *apiv1.AnnounceRequest) (*apiv1.AnnounceResponse, error) {
	const op = "master.announce"
	l, err := s.leading.mine(op)
	if err != nil {
		return nil, wire.Status(err)
	}
	id := api.MasterID(request.Id)
	isMember := slices.ContainsFunc(s.raft.Members.Status().Members, func(member raftlog.Member) bool { return member.ID == id })
	switch caller := guard.CallerOf(ctx); {
	case caller.Kind == rights.Master && caller.Name != request.Id:
		return nil, wire.Status(api.E(op, api.Denied, id, fmt.Errorf("master %s speaks for itself alone", caller.Name)))
	case api.ClusterID(request.ClusterId) != s.raft.Cluster():
		return nil, wire.Status(api.E(op, api.Denied, id, fmt.Errorf("it is of cluster %q, this is %s", request.ClusterId, s.raft.Cluster())))
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
	after := wire.TermFromProto(request.GetAfter())
	timer := time.NewTimer(leaderWaitMax)
	defer timer.Stop()
	for {
		news := s.leading.news.wait()
		if id, address, term := s.leading.leaderInTerm(); address != "" && after.Before(term) {
			return &apiv1.LeaderResponse{Term: wire.TermToProto(term), Id: string(id), GrpcAddress: address}, nil
		}
		select {
		case <-news:
			continue
		case <-timer.C:
		case <-ctx.Done():
		}
		return nil, wire.Status(api.E("master.leader", api.Unavailable, s.config.ID, fmt.Errorf("no leader after term %s is known here", after)))
	}
}
