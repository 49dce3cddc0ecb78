package raftlog

import (
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/logpb"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/registry"
)

// What is read from disk was checked before it was written: nothing is refused or
// mended here, so that every master reads the very same.

func timeToLog(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func timeFromLog(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

func durationToLog(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// windowToLog writes no window as nothing.
func windowToLog(w api.Window) *apiv1.Window {
	if w == (api.Window{}) {
		return nil
	}
	return &apiv1.Window{Start: timeToLog(w.Start), Duration: durationToLog(w.Duration)}
}

func windowFromLog(m *apiv1.Window) api.Window {
	return api.Window{Start: timeFromLog(m.GetStart()), Duration: m.GetDuration().AsDuration()}
}

func numbersToLog(list []registry.Numbers) []*logpb.Numbers {
	all := make([]*logpb.Numbers, len(list))
	for i, one := range list {
		all[i] = &logpb.Numbers{First: one.First, Next: one.Next}
	}
	return all
}

func numbersFromLog(list []*logpb.Numbers) []registry.Numbers {
	all := make([]registry.Numbers, len(list))
	for i, m := range list {
		all[i] = registry.Numbers{First: m.First, Next: m.Next}
	}
	return all
}

func texts[S ~string](words []S) []string {
	list := make([]string, len(words))
	for i, word := range words {
		list[i] = string(word)
	}
	return list
}

func operationIDs(words []string) []api.OperationID {
	if len(words) == 0 {
		return nil
	}
	list := make([]api.OperationID, len(words))
	for i, word := range words {
		list[i] = api.OperationID(word)
	}
	return list
}

func agentIDs(words []string) []api.AgentID {
	list := make([]api.AgentID, len(words))
	for i, word := range words {
		list[i] = api.AgentID(word)
	}
	return list
}

func agentToLog(a api.Agent) *apiv1.Agent {
	return &apiv1.Agent{
		Id:         string(a.ID),
		Hostname:   a.Hostname,
		Resources:  wire.ResourcesToProto(a.Resources),
		Attributes: a.Attributes,
		Region:     a.Region,
		Zone:       a.Zone,
		Address:    a.Address,
		Version:    a.Version,
	}
}

func agentFromLog(m *apiv1.Agent) api.Agent {
	return api.Agent{
		ID:         api.AgentID(m.GetId()),
		Hostname:   m.GetHostname(),
		Resources:  wire.ResourcesOf(m.GetResources()),
		Attributes: m.GetAttributes(),
		Region:     m.GetRegion(),
		Zone:       m.GetZone(),
		Address:    m.GetAddress(),
		Version:    m.GetVersion(),
	}
}

func frameworkToLog(f api.Framework) *apiv1.Framework {
	m := &apiv1.Framework{
		Id:              string(f.ID),
		Name:            f.Name,
		Principal:       f.Principal,
		FailoverTimeout: durationToLog(f.FailoverTimeout),
		Standby:         f.Standby,
		Constraint:      f.Constraint,
		MinOffer:        wire.ResourcesToProto(f.MinOffer),
		MaxOffer:        wire.ResourcesToProto(f.MaxOffer),
		Revocable:       f.Revocable,
		Labels:          f.Labels,
		Endpoints:       f.Endpoints,
	}
	for _, role := range f.Roles {
		m.Roles = append(m.Roles, string(role))
	}
	return m
}

func frameworkFromLog(m *apiv1.Framework) api.Framework {
	f := api.Framework{
		ID:              api.FrameworkID(m.GetId()),
		Name:            m.GetName(),
		Principal:       m.GetPrincipal(),
		FailoverTimeout: m.GetFailoverTimeout().AsDuration(),
		Standby:         m.GetStandby(),
		Constraint:      m.GetConstraint(),
		MinOffer:        wire.ResourcesOf(m.GetMinOffer()),
		MaxOffer:        wire.ResourcesOf(m.GetMaxOffer()),
		Revocable:       m.GetRevocable(),
		Labels:          m.GetLabels(),
		Endpoints:       m.GetEndpoints(),
	}
	for _, role := range m.GetRoles() {
		f.Roles = append(f.Roles, api.Role(role))
	}
	return f
}

func masterToLog(m registry.Master) *logpb.Master {
	return &logpb.Master{Grpc: m.GRPC, Http: m.HTTP, Raft: m.Raft, Version: m.Version, Allocator: m.Allocator}
}

func masterFromLog(m *logpb.Master) registry.Master {
	return registry.Master{
		GRPC: m.GetGrpc(), HTTP: m.GetHttp(), Raft: m.GetRaft(), Version: m.GetVersion(), Allocator: m.GetAllocator(),
	}
}

func roleToLog(r registry.Role) *logpb.Role {
	return &logpb.Role{
		Weight:    r.Weight,
		Priority:  int64(r.Priority),
		Guarantee: wire.ResourcesToProto(r.Guarantee),
		Limit:     wire.ResourcesToProto(r.Limit),
	}
}

func roleFromLog(m *logpb.Role) registry.Role {
	return registry.Role{
		Weight:    m.GetWeight(),
		Priority:  int(m.GetPriority()),
		Guarantee: wire.ResourcesOf(m.GetGuarantee()),
		Limit:     wire.ResourcesOf(m.GetLimit()),
	}
}

func resultToLog(r registry.Result) *logpb.Result {
	m := &logpb.Result{AgentId: string(r.Agent), FrameworkId: string(r.Framework), Session: r.Session, Version: r.Version}
	if r.Err != nil {
		m.Refusal = &logpb.Refusal{Op: r.Err.Op, Kind: uint32(r.Err.Kind), Subject: r.Err.Subject}
		if r.Err.Err != nil {
			message := r.Err.Err.Error()
			m.Refusal.Message = &message
		}
	}
	return m
}

func resultFromLog(m *logpb.Result) registry.Result {
	r := registry.Result{
		Agent:     api.AgentID(m.GetAgentId()),
		Framework: api.FrameworkID(m.GetFrameworkId()),
		Session:   m.GetSession(),
		Version:   m.GetVersion(),
	}
	if refusal := m.GetRefusal(); refusal != nil {
		var cause error
		if refusal.Message != nil {
			cause = errors.New(refusal.GetMessage())
		}
		r.Err = api.E(refusal.GetOp(), api.Kind(refusal.GetKind()), refusal.GetSubject(), cause)
	}
	return r
}
