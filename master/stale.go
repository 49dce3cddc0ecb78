package master

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/registry"
)

// What a master without leadership answers to reads that are marked stale.

// What a follower shows of states, and why.
const (
	followerState = "unknown"
	followerWhy   = "as the registry has it; only the leader knows more"
)

// page cuts a sorted list as ListRequest asks, and names the page that follows.
func page[K ~string](r *apiv1.ListRequest, keys []K, name func(K) string) (items []K, next string) {
	limit := int(r.GetLimit())
	if limit <= 0 || limit > api.PageItemsMax {
		limit = api.PageItemsMax
	}
	for _, key := range keys {
		if string(key) <= r.GetPageToken() && r.GetPageToken() != "" {
			continue
		}
		if !strings.HasPrefix(string(key), r.GetPrefix()) && name(key) != r.GetPrefix() {
			continue
		}
		if len(items) == limit {
			return items, string(items[limit-1])
		}
		items = append(items, key)
	}
	return items, ""
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func (m *Master) staleAgents(r *apiv1.ListRequest) *apiv1.ListAgentsResponse {
	state := m.raft.Registry()
	ids, next := page(r, sortedKeys(state.Agents), func(id api.AgentID) string { return state.Agents[id].Agent.Hostname })
	answer := &apiv1.ListAgentsResponse{NextPageToken: next, AppliedIndex: state.Index}
	for _, id := range ids {
		a := state.Agents[id]
		answer.Items = append(answer.Items, &apiv1.AgentView{
			Id: string(id), Hostname: a.Agent.Hostname, State: followerState, Why: followerWhy, Marks: a.Marks.Strings(),
			Total: wire.ResourcesStruct(a.Agent.Resources), Attributes: a.Agent.Attributes, Region: a.Agent.Region, Zone: a.Agent.Zone,
			Address: a.Agent.Address, Version: a.Agent.Version, Admitted: wire.TimeToProto(a.Admitted),
			Maintenance: wire.WindowToProto(a.Maintenance),
		})
	}
	return answer
}

func (m *Master) staleFrameworks(r *apiv1.ListRequest) *apiv1.ListFrameworksResponse {
	state := m.raft.Registry()
	living := maps.Clone(state.Frameworks)
	maps.DeleteFunc(living, func(_ api.FrameworkID, f registry.Framework) bool { return !f.Removed.IsZero() })
	ids, next := page(r, sortedKeys(living), func(id api.FrameworkID) string { return living[id].Framework.Name })
	answer := &apiv1.ListFrameworksResponse{NextPageToken: next, AppliedIndex: state.Index}
	for _, id := range ids {
		f := living[id]
		answer.Items = append(answer.Items, &apiv1.FrameworkView{
			Id: string(id), Name: f.Framework.Name, State: followerState, Why: followerWhy, Principal: f.Framework.Principal,
			Roles: wire.Texts(f.Framework.Roles), FailoverTimeout: durationpb.New(f.Framework.FailoverTimeout), Standby: f.Framework.Standby,
			Instance: string(f.Instance), Session: f.Session, Constraint: f.Framework.Constraint, Labels: f.Framework.Labels,
			Endpoints: f.Framework.Endpoints, Admitted: wire.TimeToProto(f.Admitted),
		})
	}
	return answer
}

func (m *Master) staleRoles(r *apiv1.ListRequest) *apiv1.ListRolesResponse {
	state := m.raft.Registry()
	names, next := page(r, sortedKeys(state.Roles), func(role api.Role) string { return string(role) })
	answer := &apiv1.ListRolesResponse{NextPageToken: next, AppliedIndex: state.Index}
	for _, name := range names {
		set := state.Roles[name]
		answer.Items = append(answer.Items, &apiv1.RoleView{
			Role: string(name), Weight: set.Weight, Priority: int32(set.Priority),
			Guarantee: wire.ResourcesStruct(set.Guarantee), Limit: wire.ResourcesStruct(set.Limit),
		})
	}
	return answer
}

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
	ids, next := page(r, sortedKeys(views), func(id api.MasterID) string { return string(id) })
	answer := &apiv1.ListMastersResponse{NextPageToken: next}
	if m.leading.Load() == nil {
		answer.AppliedIndex = state.Index
	}
	for _, id := range ids {
		answer.Items = append(answer.Items, views[id])
	}
	return answer
}
