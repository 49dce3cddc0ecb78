package master

import (
	"maps"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/view"
)

// listMasters joins what Raft and what the registry know. It is the same on every
// master, but for who is silent, which only the leader sees.
func (m *Master) listMasters(r *apiv1.ListRequest) *apiv1.ListMastersResponse {
	status, state := m.raft.Status(), m.raft.Outline()
	views := map[api.MasterID]*apiv1.MasterView{}
	for _, member := range status.Members {
		known := state.Masters[member.ID]
		view := &apiv1.MasterView{
			Id: string(member.ID), State: member.Role, GrpcAddress: known.GRPC, HttpAddress: known.HTTP, RaftAddress: member.Addr,
			Version: known.Version, Allocator: known.Allocator,
		}
		if member.Role == "voter" {
			view.State = "follower"
		}
		if !member.Silent.IsZero() {
			view.State, view.Since, view.Why = "unreachable", wire.TimeToProto(member.Silent), "it does not answer the leader"
		}
		if member.ID == m.config.ID {
			view.AppliedIndex, view.Why = status.Applied, m.sick()
		}
		views[member.ID] = view
	}
	if leader := views[status.Leader]; leader != nil {
		for _, view := range views {
			if view.Allocator != "" && leader.Allocator != "" && view.Allocator != leader.Allocator {
				view.Why = "its allocator differs from the leader's: when it leads, offers follow another policy"
			}
		}
	}
	page := view.List(queryOf(r), maps.Values(views), (*apiv1.MasterView).GetId, (*apiv1.MasterView).GetState)
	answer := &apiv1.ListMastersResponse{Items: page.Items, NextPageToken: page.Next}
	if m.leading.Load() == nil {
		answer.AppliedIndex = state.Index
	}
	return answer
}
