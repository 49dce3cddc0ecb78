package core

import (
	"maps"
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// operationsMax bounds the operations whose result is awaited. Of more, the result is
// told when it comes, but one that a session's end swallows is not asked for again.
const operationsMax = 1 << 14

// operations are those with an ID whose result the scheduler has not heard. The SDK asks
// for them in every session (R26). Launches are not among them: their tasks tell.
type operations struct {
	awaited map[api.OperationID]operation
	// askAll: the scheduler wants to hear of all that are remembered, in the next session.
	askAll bool
}

// operation is an operation of an accept whose result somebody waits for.
type operation struct {
	id     api.OperationID
	agent  api.AgentID
	accept uint64 // number of the call, in the session that sent it; 0 later
}

func newOperations() operations { return operations{awaited: make(map[api.OperationID]operation)} }

// put awaits a result, if there is room.
func (o *operations) put(one operation) {
	if len(o.awaited) < operationsMax {
		o.awaited[one.id] = one
	}
}

// told forgets an operation whose result the scheduler has heard, unless it is awaited anew.
func (o *operations) told(call CallOperationDone) {
	if call.awaited.id != "" && o.awaited[call.Operation] == call.awaited {
		delete(o.awaited, call.Operation)
	}
}

// again prepares for a session: it lists what was not told.
func (o *operations) again() []api.OperationID {
	ids := slices.Sorted(maps.Keys(o.awaited))
	for _, id := range ids {
		one := o.awaited[id]
		one.accept = 0
		o.awaited[id] = one
	}
	return ids
}

// awaitOperations notes what an answer asks for, if anybody wants to hear of it.
func (c *Core) awaitOperations(asked []api.Operation, agent api.AgentID, call uint64) {
	if !c.wants(InOperations) {
		return
	}
	for i := range asked {
		if id := asked[i].ID; id != "" && !asked[i].Kind.Launches() {
			c.operations.put(operation{id, agent, call})
		}
	}
}

// refuseOperationsHere tells of the operations of an answer that is not even sent.
func (c *Core) refuseOperationsHere(asked []api.Operation, agent api.AgentID, err *api.Error) {
	c.awaitOperations(asked, agent, 0)
	for i := range asked {
		if id := asked[i].ID; id != "" {
			c.operationDone(protocol.OperationResult{ID: id, Agent: agent, Err: err})
		}
	}
}

// refuseOperations tells of the operations of a call that was refused whole.
func (c *Core) refuseOperations(call uint64, err *api.Error) {
	for _, id := range slices.Sorted(maps.Keys(c.operations.awaited)) {
		if one := c.operations.awaited[id]; one.accept == call {
			c.operationDone(protocol.OperationResult{ID: id, Agent: one.agent, Err: err})
		}
	}
}

// operationDone tells a result; it is awaited until the scheduler has heard it. An
// operation without an ID is told of only when it could not be done.
func (c *Core) operationDone(result protocol.OperationResult) {
	if result.ID == "" {
		c.tellRefused(result.Err)
		return
	}
	one := c.operations.awaited[result.ID]
	if result.Agent == "" {
		result.Agent = one.agent
	}
	c.calls.tell(InOperations, CallOperationDone{Agent: result.Agent, Operation: result.ID, Err: result.Err, awaited: one})
}

// askAwaited asks a new session for what an earlier one has not told.
func (c *Core) askAwaited() {
	ids := c.operations.again()
	if c.operations.askAll {
		c.operations.askAll = false
		c.sendCall(protocol.ReconcileOperations{})
	}
	c.askPaged(ids)
}

func (c *Core) askPaged(ids []api.OperationID) {
	for page := range pages(ids, api.OperationsPerQuestionMax) {
		if len(page.items) > 0 {
			c.sendCall(protocol.ReconcileOperations{Operations: page.items})
		}
	}
}

// askOperations asks for results now, or in the next session.
func (c *Core) askOperations(ids []api.OperationID) {
	switch {
	case len(ids) == 0 && c.session.phase != active:
		c.operations.askAll = true
	case len(ids) == 0:
		c.sendCall(protocol.ReconcileOperations{})
	}
	for _, id := range ids {
		if _, waits := c.operations.awaited[id]; !waits {
			c.operations.put(operation{id: id})
		}
	}
	c.askPaged(ids)
}
