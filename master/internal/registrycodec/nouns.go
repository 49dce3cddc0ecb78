package registrycodec

import (
	"errors"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/logpb"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/registry"
)

func numbersToLog(n registry.Numbers) *logpb.Numbers {
	return &logpb.Numbers{First: n.First, Next: n.Next}
}

func numbersFromLog(m *logpb.Numbers) registry.Numbers {
	return registry.Numbers{First: m.First, Next: m.Next}
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

func agentToLog(a registry.Agent) *logpb.AgentItem {
	return &logpb.AgentItem{
		Agent: wire.AgentToProto(a.Agent), Nonce: string(a.Nonce), BootId: a.BootID, Marks: uint32(a.Marks),
		Grace: wire.DurationToProto(a.Grace), Why: a.Why, Admitted: wire.TimeToProto(a.Admitted), Reserved: wire.ResourcesToProto(a.Reserved),
		Maintenance: wire.WindowToProto(a.Maintenance), Maintained: a.Maintained, Gone: wire.TimeToProto(a.Gone),
		MarksVersion: a.MarksVersion, Volumes: wire.Each(a.Volumes, volumeToLog),
		Kills: wire.Each(a.Kills, killToLog),
	}
}

func killToLog(k registry.Kill) *logpb.KillItem {
	return &logpb.KillItem{FrameworkId: string(k.Task.Framework), TaskId: string(k.Task.Task), Grace: wire.DurationToProto(k.Grace)}
}

func killFromLog(m *logpb.KillItem) registry.Kill {
	return registry.Kill{Task: killedOf(m), Grace: m.GetGrace().AsDuration()}
}

func killedToLog(task api.TaskRef) *logpb.KillItem { return killToLog(registry.Kill{Task: task}) }

func killedOf(m *logpb.KillItem) api.TaskRef {
	return api.TaskRef{Framework: api.FrameworkID(m.GetFrameworkId()), Task: api.TaskID(m.GetTaskId())}
}

func volumeToLog(v registry.Volume) *logpb.VolumeItem {
	return &logpb.VolumeItem{Volume: wire.ResourceToProto(v.Resource), Generation: v.Generation, Destroying: v.Destroying}
}

func volumeFromLog(m *logpb.VolumeItem) registry.Volume {
	return registry.Volume{Resource: wire.ResourceOf(m.Volume), Generation: m.Generation, Destroying: m.Destroying}
}

func agentFromLog(m *logpb.AgentItem) registry.Agent {
	return registry.Agent{
		Agent:        wire.AgentOf(m.Agent),
		Nonce:        api.Nonce(m.Nonce),
		BootID:       m.BootId,
		Marks:        api.Mark(m.Marks),
		MarksVersion: m.MarksVersion,
		Grace:        m.Grace.AsDuration(),
		Why:          m.Why,
		Admitted:     wire.TimeOf(m.Admitted),
		Reserved:     wire.ResourcesOf(m.Reserved),
		Volumes:      wire.Each(m.Volumes, volumeFromLog),
		Kills:        wire.Each(m.Kills, killFromLog),

		Maintenance: wire.WindowOf(m.Maintenance),
		Maintained:  m.Maintained,
		Gone:        wire.TimeOf(m.Gone),
	}
}

func frameworkToLog(f registry.Framework) *logpb.FrameworkItem {
	return &logpb.FrameworkItem{
		Framework: wire.FrameworkToProto(f.Framework), Instance: string(f.Instance), Session: f.Session, Turn: f.Turn,
		Admitted: wire.TimeToProto(f.Admitted), Removed: wire.TimeToProto(f.Removed), Why: f.Why, StoreVersion: f.StoreVersion,
		Operations: wire.Each(f.Operations, operationToLog),
	}
}

func frameworkFromLog(m *logpb.FrameworkItem) registry.Framework {
	return registry.Framework{
		Framework:    wire.FrameworkOf(m.Framework),
		Instance:     api.Nonce(m.Instance),
		Session:      m.Session,
		Turn:         m.Turn,
		Admitted:     wire.TimeOf(m.Admitted),
		Removed:      wire.TimeOf(m.Removed),
		Why:          m.Why,
		StoreVersion: m.StoreVersion,
		Operations:   wire.Each(m.Operations, operationFromLog),
	}
}

func operationToLog(o registry.Operation) *logpb.OperationDone {
	return &logpb.OperationDone{Id: string(o.ID), AgentId: string(o.Agent)}
}

func operationFromLog(m *logpb.OperationDone) registry.Operation {
	return registry.Operation{ID: api.OperationID(m.Id), Agent: api.AgentID(m.AgentId)}
}

func tokenToLog(t registry.Token) *logpb.TokenItem {
	return &logpb.TokenItem{
		Id: t.ID, Kind: string(t.Kind), Principal: t.Principal, Hash: t.Hash, By: t.By, Created: wire.TimeToProto(t.Created),
		Expires: wire.TimeToProto(t.Expires), UsesMax: t.UsesMax, Used: t.Used, Revoked: wire.TimeToProto(t.Revoked),
	}
}

func tokenFromLog(m *logpb.TokenItem) registry.Token {
	return registry.Token{
		ID: m.GetId(), Kind: registry.TokenKind(m.GetKind()), Principal: m.GetPrincipal(), Hash: m.GetHash(), By: m.GetBy(),
		Created: wire.TimeOf(m.GetCreated()), Expires: wire.TimeOf(m.GetExpires()), UsesMax: m.GetUsesMax(), Used: m.GetUsed(),
		Revoked: wire.TimeOf(m.GetRevoked()),
	}
}
