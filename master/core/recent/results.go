package recent

import (
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/registry"
)

// Results holds what a leader can answer when a framework asks again about its operations (R26). Operations that
// changed reservations are also in the registry, so every later leader knows them. Others are known only to the leader
// that answered them.
type Results struct {
	done  remembered
	other remembered              // refused operations, and launches
	waits map[api.OperationID]int // operations that wait for the registry; they are answered once it has answered
}

// remembered holds the latest registry.OperationsMax results of one kind. The oldest is forgotten, and a framework that
// asks for it is told that it is not known.
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

// Note remembers the result. When an ID is used again, only the latest result is kept.
func (r *Results) Note(kind api.OperationKind, result protocol.OperationResult) {
	r.done.forget(result.ID)
	r.other.forget(result.ID)
	if !kind.Launches() && result.Err == nil {
		r.done.add(result)
		return
	}
	r.other.add(result)
}

// Find returns the result of an operation, if it is remembered.
func (r *Results) Find(id api.OperationID) (protocol.OperationResult, bool) {
	if result, known := r.done.byID[id]; known {
		return result, true
	}
	result, known := r.other.byID[id]
	return result, known
}

// Known lists the IDs of all operations whose result is remembered.
func (r *Results) Known() []api.OperationID {
	return append(slices.Clone(r.done.order), r.other.order...)
}

// Recall adds the operations that earlier leaders have done, as the registry lists them.
func (r *Results) Recall(operations []registry.Operation) {
	for _, operation := range operations {
		r.done.add(protocol.OperationResult{ID: operation.ID, Agent: operation.Agent})
	}
}

// Wait notes the operations of an accept that waits for the registry. StopWait undoes it.
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

// StopWait notes that the registry has answered an accept with these operations.
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

// Waits reports whether the operation belongs to an accept that waits for the registry.
func (r *Results) Waits(id api.OperationID) bool { return r.waits[id] > 0 }
