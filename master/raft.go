package master

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/master/internal/intake"
	"github.com/tenderhq/tender/master/internal/outbox"
	"github.com/tenderhq/tender/master/internal/raftlog"
	"github.com/tenderhq/tender/master/internal/statehash"
	"github.com/tenderhq/tender/master/registry"
)

// raftService changes the quorum. Every master answers its reads.
type raftService struct {
	apiv1.UnimplementedRaftServiceServer
	config  *Config
	raft    *raftlog.Log
	leading *leadership
	masters *masters
	saver   *saver
	hash    *statehash.Hash
}

func (s raftService) ListPeers(context.Context, *apiv1.ListPeersRequest) (*apiv1.ListPeersResponse, error) {
	status, state := s.raft.Members.Status(), s.raft.Outline()
	answer := &apiv1.ListPeersResponse{
		Term:         &apiv1.Term{Epoch: state.Epoch, Number: status.Term},
		AppliedIndex: status.Applied,
		LastIndex:    status.Last,
		Why:          s.masters.sick(),
		Snapshot:     s.saver.view(),
	}
	for _, member := range status.Members {
		answer.Items = append(answer.Items, &apiv1.RaftPeer{Id: string(member.ID), RaftAddress: member.Addr, Role: member.Role})
	}
	return answer, nil
}

func (s raftService) AddPeer(ctx context.Context, r *apiv1.AddPeerRequest) (*apiv1.ActionResponse, error) {
	const op = "raft.add"
	peer, err := ParsePeer(r.GetId() + "=" + r.GetRaftAddress())
	if err != nil {
		return nil, api.E(op, api.Invalid, r.GetId(), err)
	}
	err = s.leading.onLeader(op, func(*leader) error { return s.raft.Members.Add(ctx, peer) })
	return actionResponse(r.GetId(), fmt.Sprintf("master %s is a voter", peer.ID), err)
}

func (s raftService) RemovePeer(ctx context.Context, r *apiv1.RemovePeerRequest) (*apiv1.ActionResponse, error) {
	id, done := api.MasterID(r.GetId()), fmt.Sprintf("master %s has left the quorum", r.GetId())
	err := s.leading.onLeader("raft.remove", func(l *leader) error {
		// The registry comes first, because a leader that has removed itself can't write to it any more.
		forget := func() error {
			if err := l.commit(ctx, "raft.remove", registry.RemoveMaster{ID: id}); err != nil && !api.Is(err, api.NotFound) {
				return err
			}
			return nil
		}
		costs, err := s.raft.Members.Remove(ctx, raftlog.Removal{ID: id, Force: r.GetForce(), First: forget})
		if costs != "" {
			done += "; " + costs
		}
		return err
	})
	return actionResponse(r.GetId(), done, err)
}

func (s raftService) TransferLeader(ctx context.Context, r *apiv1.TransferLeaderRequest) (*apiv1.ActionResponse, error) {
	id := api.MasterID(r.GetId())
	err := s.leading.onLeader("raft.transfer", func(*leader) error { return s.raft.Members.Transfer(ctx, id) })
	return actionResponse(r.GetId(), "leadership was handed over", err)
}

// snapshotChunkBytes keeps each message well below the size limit.
const snapshotChunkBytes = 256 << 10

func (s raftService) SaveSnapshot(_ *apiv1.SaveSnapshotRequest, stream grpc.ServerStreamingServer[apiv1.SnapshotChunk]) error {
	const op = "raft.snapshot"
	l, err := s.leading.mine(op)
	if err != nil {
		return err
	}
	select {
	case s.saver.slots <- struct{}{}:
		defer func() { <-s.saver.slots }()
	default:
		err := fmt.Errorf("%d snapshots are being saved, which is the most; come back in %v", snapshotsMax, slowRetry)
		return api.E(op, api.Limit, s.config.ID, err).RetryIn(slowRetry)
	}
	return outbox.SendUntil(l.streams(), op, func(slow *outbox.Patience) error { return s.raft.Snapshots.Write(&chunks{stream, slow}) })
}

// chunks sends what is written to it on a stream, in pieces.
type chunks struct {
	stream grpc.ServerStreamingServer[apiv1.SnapshotChunk]
	slow   *outbox.Patience
}

func (c *chunks) Write(data []byte) (int, error) {
	for sent := 0; sent < len(data); {
		end := min(len(data), sent+snapshotChunkBytes)
		if err := c.slow.During(func() error { return c.stream.Send(&apiv1.SnapshotChunk{Data: data[sent:end]}) }); err != nil {
			return sent, err
		}
		sent = end
	}
	return len(data), nil
}

func (s raftService) StateHash(ctx context.Context, _ *apiv1.StateHashRequest) (*apiv1.StateHashResponse, error) {
	hash, err := s.hash.Now(ctx)
	intake.SenderOf(ctx).Charge(intake.CallsExpense, intake.WholePrice)
	if err != nil {
		return nil, err
	}
	return &apiv1.StateHashResponse{AppliedIndex: hash.GetAppliedIndex(), Hash: hash.GetHash(), Incarnation: s.raft.Members.Status().Incarnation}, nil
}
