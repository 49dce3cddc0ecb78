package core

import (
	"errors"
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/registry"
)

// results is what a leader can say of a framework's operations when it is asked again
// (R26). What changed reservations is in the registry too, so every later leader knows
// it; what did not, only the leader that said so.
type results struct {
	done  remembered
	other remembered              // refused, or launches
	waits map[api.OperationID]int // for the registry: answered when it has
}

// remembered are the latest registry.OperationsMax of their kind; the oldest is
// forgotten, and who asks for it is told so.
type remembered struct {
	byID  map[api.OperationID]protocol.OperationResult
	order []api.OperationID
}

func (r *remembered) add(result protocol.OperationResult) {
	if r.byID == nil {
		r.byID = make(map[api.OperationID]protocol.OperationResult)
	}
	r.forget(result.ID)
	if len(r.order) == registry.OperationsMax {
		r.forget(r.order[0])
	}
	r.byID[result.ID] = result
	r.order = append(r.order, result.ID)
}

func (r *remembered) forget(id api.OperationID) {
	if _, known := r.byID[id]; !known {
		return
	}
	delete(r.byID, id)
	for i, one := range r.order {
		if one == id {
			r.order = append(r.order[:i:i], r.order[i+1:]...)
			return
		}
	}
}

// note remembers the result. An ID that is used again means the latest.
func (r *results) note(kind api.OperationKind, result protocol.OperationResult) {
	r.done.forget(result.ID)
	r.other.forget(result.ID)
	if !kind.Launches() && result.Err == nil {
		r.done.add(result)
		return
	}
	r.other.add(result)
}

func (r *results) find(id api.OperationID) (protocol.OperationResult, bool) {
	if result, known := r.done.byID[id]; known {
		return result, true
	}
	result, known := r.other.byID[id]
	return result, known
}

// known lists all that can be told.
func (r *results) known() []api.OperationID {
	return append(slices.Clone(r.done.order), r.other.order...)
}

// recall takes what earlier leaders have done.
func (r *results) recall(operations []registry.Operation) {
	for _, operation := range operations {
		r.done.add(protocol.OperationResult{ID: operation.ID, Agent: operation.Agent})
	}
}

// wait notes the operations of an accept that waits for the registry; stopWait undoes it.
func (r *results) wait(operations []api.Operation) {
	if r.waits == nil {
		r.waits = make(map[api.OperationID]int)
	}
	for _, operation := range operations {
		if operation.ID != "" {
			r.waits[operation.ID]++
		}
	}
}

func (r *results) stopWait(operations []api.Operation) {
	for _, operation := range operations {
		if operation.ID == "" {
			continue
		}
		if r.waits[operation.ID]--; r.waits[operation.ID] == 0 {
			delete(r.waits, operation.ID)
		}
	}
}

// reconcileOperations owes the results of the named operations, or of all that are known.
func (r *answers) reconcileOperations(s *session, number uint64, call protocol.ReconcileOperations) {
	if len(call.Operations) == 0 {
		r.oweAll(s, walkOperations)
		return
	}
	if !r.mayAsk(s, number, "framework.operations", len(call.Operations)) {
		return
	}
	for _, id := range call.Operations {
		r.owe(s, question{operation: id})
	}
}

var errNoOperation = errors.New("no operation of this ID is known: it has changed nothing, or more than 1,000 were done since; " +
	"what a launch came to is its tasks' to say")

// answerOperation tells what became of the operation; false while it waits for the
// registry, for then it is told when that has answered.
func (r *answers) answerOperation(s *session, id api.OperationID) bool {
	if s.framework.results.waits[id] > 0 {
		return false
	}
	result, known := s.framework.results.find(id)
	if !known {
		result = protocol.OperationResult{ID: id, Err: api.E("framework.operation", api.NotFound, id, errNoOperation)}
	}
	r.tell(s.framework, result)
	return true
}
