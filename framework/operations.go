package framework

import (
	"context"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// operationsMax bounds the operations whose result is awaited. Of more, the result is
// told when it comes, but one that a session's end swallows is not asked for again.
const operationsMax = 1 << 14

// operations are those with an ID whose result the scheduler has not heard. The SDK asks
// for them in every session (R26). Launches are not among them: their tasks tell.
type operations map[api.OperationID]awaited

// put awaits a result, if there is room.
func (o operations) put(id api.OperationID, one awaited) {
	if len(o) < operationsMax {
		o[id] = one
	}
}

type awaited struct {
	agent  api.AgentID
	accept uint64 // number of the call, in the session that sent it; 0 later
}

// await notes what an answer asks for, if anybody wants to hear of it.
func (l *loop) await(asked []api.Operation, agent api.AgentID, call uint64) {
	if _, wants := l.scheduler.(OperationWatcher); !wants {
		return
	}
	for _, operation := range asked {
		if operation.ID != "" && operation.Kind != api.OpLaunch {
			l.operations.put(operation.ID, awaited{agent, call})
		}
	}
}

// refuseOperationsHere tells of the operations of an answer that is not even sent.
func (l *loop) refuseOperationsHere(asked []api.Operation, agent api.AgentID, err *api.Error) {
	l.await(asked, agent, 0)
	for _, operation := range asked {
		if operation.ID != "" {
			l.operationDone(protocol.OperationResult{ID: operation.ID, Agent: agent, Err: err})
		}
	}
}

// refuseOperations tells of the operations of a call that was refused whole.
func (l *loop) refuseOperations(call uint64, err *api.Error) {
	for id, one := range l.operations { // order: irrelevant because each is told by itself
		if one.accept == call {
			l.operationDone(protocol.OperationResult{ID: id, Agent: one.agent, Err: err})
		}
	}
}

// operationDone tells a result; it is awaited until the scheduler has heard it. An
// operation without an ID is told of only when it could not be done.
func (l *loop) operationDone(result protocol.OperationResult) {
	if result.ID == "" {
		l.tellRefused(result.Err)
		return
	}
	watcher, wants := l.scheduler.(OperationWatcher)
	if !wants {
		return
	}
	one, waits := l.operations[result.ID]
	if result.Agent == "" {
		result.Agent = one.agent
	}
	if len(l.callbacks.todo) >= heldMax {
		l.log.Warn("scheduler is too slow, event dropped", "event", "OperationDone")
		return
	}
	l.callbacks.push(job{
		name: "OperationDone",
		call: func(ctx context.Context) error {
			watcher.OperationDone(ctx, result.Agent, result.ID, asError(result.Err))
			return nil
		},
		done: func(err error) {
			if err == nil && waits && l.operations[result.ID] == one {
				delete(l.operations, result.ID)
			}
		},
	})
}

// askAwaited asks a new session for what an earlier one has not told.
func (l *loop) askAwaited() {
	ids := make([]api.OperationID, 0, len(l.operations))
	for id, one := range l.operations { // order: irrelevant because each is answered by itself
		one.accept = 0
		l.operations[id] = one
		ids = append(ids, id)
	}
	if l.askAll {
		l.askAll = false
		l.send(protocol.ReconcileOperations{})
	}
	l.askOperations(ids)
}

func (l *loop) askOperations(ids []api.OperationID) {
	for page := range pages(ids, api.OperationsPerQuestionMax) {
		if len(page.items) > 0 {
			l.send(protocol.ReconcileOperations{Operations: page.items})
		}
	}
}

// ReconcileOperations asks again what became of operations that were given an ID; none =
// all that the masters remember: of each framework the last 1,000 that changed what is
// reserved, through any failover. The answers come to [OperationWatcher], with an error of
// kind [api.NotFound] for an operation that nobody knows: it has changed nothing, or is
// older than those. The SDK asks by itself, at the start of each session, for operations
// of this Run that it has not heard of; a scheduler that restarts without memory asks here.
func (c *Client) ReconcileOperations(operations ...api.OperationID) error {
	const op = "framework.reconcileOperations"
	for _, id := range operations {
		if err := api.CheckID("operation", string(id)); err != nil {
			return api.E(op, api.Invalid, id, err)
		}
	}
	return c.ask(op, func() { c.loop.operationsAsked(operations) })
}

// operationsAsked asks now, or in the next session.
func (l *loop) operationsAsked(ids []api.OperationID) {
	switch {
	case len(ids) == 0 && l.session.phase != active:
		l.askAll = true
	case len(ids) == 0:
		l.send(protocol.ReconcileOperations{})
	}
	for _, id := range ids {
		if _, waits := l.operations[id]; !waits {
			l.operations.put(id, awaited{})
		}
	}
	l.askOperations(ids)
}
