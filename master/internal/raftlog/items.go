package raftlog

import (
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/logpb"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/registry"
)

func agentItem(m *logpb.AgentItem) registry.Agent {
	return registry.Agent{
		Agent:    agentFromLog(m.Agent),
		Nonce:    api.Nonce(m.Nonce),
		BootID:   m.BootId,
		Marks:    api.Mark(m.Marks),
		Grace:    m.Grace.AsDuration(),
		Why:      m.Why,
		Admitted: timeFromLog(m.Admitted),
		Reserved: wire.ResourcesOf(m.Reserved),

		Maintenance: windowFromLog(m.Maintenance),
		Maintained:  m.Maintained,
		Gone:        timeFromLog(m.Gone),
	}
}

func frameworkItem(m *logpb.FrameworkItem) registry.Framework {
	return registry.Framework{
		Framework:    frameworkFromLog(m.Framework),
		Instance:     api.Nonce(m.Instance),
		Session:      m.Session,
		Admitted:     timeFromLog(m.Admitted),
		Removed:      timeFromLog(m.Removed),
		Why:          m.Why,
		StoreVersion: m.StoreVersion,
		Operations:   operationsFromLog(m.Operations),
	}
}

func operationsToLog(operations []registry.Operation) []*logpb.OperationDone {
	list := make([]*logpb.OperationDone, len(operations))
	for i, operation := range operations {
		list[i] = &logpb.OperationDone{Id: string(operation.ID), AgentId: string(operation.Agent)}
	}
	return list
}

func operationsFromLog(list []*logpb.OperationDone) []registry.Operation {
	if len(list) == 0 {
		return nil
	}
	operations := make([]registry.Operation, len(list))
	for i, m := range list {
		operations[i] = registry.Operation{ID: api.OperationID(m.Id), Agent: api.AgentID(m.AgentId)}
	}
	return operations
}
