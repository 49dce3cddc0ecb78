package core

import (
	"maps"
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// operationsMax bounds the operations whose outcome is awaited. Beyond it an outcome is still told when it comes, but
// if it is lost with a session it is not asked for again.
const operationsMax = 1 << 14

// operations holds the operations with an ID whose outcome the scheduler has not heard. The SDK asks for these outcomes
// in every session (R26). Launches are not among them, because the tasks tell what became of them.
type operations struct {
	*base
	session *session
	calls   *calls

	awaited map[api.OperationID]operation
	// askAll says that in the next session the scheduler wants all outcomes that the masters remember.
	askAll bool
}

// operation is an operation of an accept whose outcome is awaited.
type operation struct {
	id     api.OperationID
	agent  api.AgentID
	accept uint64 // number of the accept in the session that sent it; 0 in later sessions
}

// forgetAll awaits nothing any more.
func (o *operations) forgetAll() { clear(o.awaited) }

// addAwaited begins to await an outcome, if there is room.
func (o *operations) addAwaited(sent operation) {
	if len(o.awaited) < operationsMax {
		o.awaited[sent.id] = sent
	}
}

// forgetTold forgets an operation whose outcome the scheduler has heard, unless it was asked for again meanwhile.
func (o *operations) forgetTold(call CallOperationDone) {
	if call.awaited.id != "" && o.awaited[call.Operation] == call.awaited {
		delete(o.awaited, call.Operation)
	}
}

// listAwaited prepares for a session, and lists the operations whose outcome the scheduler has not heard.
func (o *operations) listAwaited() []api.OperationID {
	ids := slices.Sorted(maps.Keys(o.awaited))
	for _, id := range ids {
		awaited := o.awaited[id]
		awaited.accept = 0
		o.awaited[id] = awaited
	}
	return ids
}

// awaitOutcomes begins to await the outcomes of an answer's operations, if the scheduler wants to know them.
func (o *operations) awaitOutcomes(asked []api.Operation, agent api.AgentID, call uint64) {
	if !o.wants(InOperations) {
		return
	}
	for i := range asked {
		if id := asked[i].ID; id != "" && !asked[i].Kind.Launches() {
			o.addAwaited(operation{id, agent, call})
		}
	}
}

// refuseHere tells the outcomes of the operations of an answer that is not even sent.
func (o *operations) refuseHere(asked []api.Operation, agent api.AgentID, err *api.Error) {
	o.awaitOutcomes(asked, agent, 0)
	for i := range asked {
		if id := asked[i].ID; id != "" {
			o.tellOutcome(protocol.OperationResult{ID: id, Agent: agent, Err: err})
		}
	}
}

// refuseCall tells the outcomes of the operations of a call that was refused as a whole.
func (o *operations) refuseCall(call uint64, err *api.Error) {
	for _, id := range slices.Sorted(maps.Keys(o.awaited)) {
		if awaited := o.awaited[id]; awaited.accept == call {
			o.tellOutcome(protocol.OperationResult{ID: id, Agent: awaited.agent, Err: err})
		}
	}
}

// tellOutcome tells an outcome. It stays awaited until the scheduler has heard it. Of an operation without an ID only
// a failure is told.
func (o *operations) tellOutcome(result protocol.OperationResult) {
	if result.ID == "" {
		o.calls.tellRefused(result.Err)
		return
	}
	awaited := o.awaited[result.ID]
	if result.Agent == "" {
		result.Agent = awaited.agent
	}
	o.calls.queueEvent(InOperations, CallOperationDone{Agent: result.Agent, Operation: result.ID, Err: result.Err, awaited: awaited})
}

// askAwaited asks in a new session for the outcomes that earlier sessions have not told.
func (o *operations) askAwaited() {
	ids := o.listAwaited()
	if o.askAll {
		o.askAll = false
		o.session.sendCall(protocol.ReconcileOperations{})
	}
	o.askPaged(ids)
}

func (o *operations) askPaged(ids []api.OperationID) {
	for page := range pages(ids, api.OperationsPerQuestionMax) {
		if len(page.items) > 0 {
			o.session.sendCall(protocol.ReconcileOperations{Operations: page.items})
		}
	}
}

// askOutcomes asks for outcomes now, or in the next session.
func (o *operations) askOutcomes(ids []api.OperationID) {
	switch {
	case len(ids) == 0 && o.session.phase != active:
		o.askAll = true
	case len(ids) == 0:
		o.session.sendCall(protocol.ReconcileOperations{})
	}
	for _, id := range ids {
		if _, waits := o.awaited[id]; !waits {
			o.addAwaited(operation{id: id})
		}
	}
	o.askPaged(ids)
}
