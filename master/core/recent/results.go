package recent

import (
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/registry"
)

// Results is what a leader can say of a framework's operations when it is asked again
// (R26). What changed reservations is in the registry too, so every later leader knows
// it; what did not, only the leader that said so.
type Results struct {
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

// Note remembers the result. An ID that is used again means the latest.
func (r *Results) Note(kind api.OperationKind, result protocol.OperationResult) {
	r.done.forget(result.ID)
	r.other.forget(result.ID)
	if !kind.Launches() && result.Err == nil {
		r.done.add(result)
		return
	}
	r.other.add(result)
}

// Find returns what became of an operation, if that is remembered.
func (r *Results) Find(id api.OperationID) (protocol.OperationResult, bool) {
	if result, known := r.done.byID[id]; known {
		return result, true
	}
	result, known := r.other.byID[id]
	return result, known
}

// Known lists all that can be told.
func (r *Results) Known() []api.OperationID {
	return append(slices.Clone(r.done.order), r.other.order...)
}

// Recall takes what earlier leaders have done.
func (r *Results) Recall(operations []registry.Operation) {
	for _, operation := range operations {
		r.done.add(protocol.OperationResult{ID: operation.ID, Agent: operation.Agent})
	}
}

// Wait notes the operations of an accept that waits for the registry; StopWait undoes it.
func (r *Results) Wait(operations []api.Operation) {
	if r.waits == nil {
		r.waits = make(map[api.OperationID]int)
	}
	for _, operation := range operations {
		if operation.ID != "" {
			r.waits[operation.ID]++
		}
	}
}

// StopWait notes that the registry has answered.
func (r *Results) StopWait(operations []api.Operation) {
	for _, operation := range operations {
		if operation.ID == "" {
			continue
		}
		if r.waits[operation.ID]--; r.waits[operation.ID] == 0 {
			delete(r.waits, operation.ID)
		}
	}
}

// Waits says whether the operation is one of an accept that waits.
func (r *Results) Waits(id api.OperationID) bool { return r.waits[id] > 0 }
