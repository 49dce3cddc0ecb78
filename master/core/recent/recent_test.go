package recent_test

import (
	"errors"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/core/recent"
	"github.com/tenderhq/tender/master/registry"
)

// TestResults: the latest result of an ID counts, what earlier leaders have done is known, and an operation waits for
// as many accepts as name it.
func TestResults(t *testing.T) {
	var r recent.Results
	r.Recall([]registry.Operation{{ID: "o1", Agent: "agent-1"}})
	r.Note(api.OpReserve, protocol.OperationResult{ID: "o1", Err: api.E("x", api.Invalid, "", errors.New("no"))})
	r.Note(api.OpReserve, protocol.OperationResult{ID: "o2"})
	if result, known := r.Find("o1"); !known || result.Err == nil {
		t.Errorf("o1 is %v, %v", result, known)
	}
	if known := r.Known(); len(known) != 2 {
		t.Errorf("%v are known", known)
	}
	twice := []api.Operation{{ID: "o3"}}
	r.Wait(twice)
	r.Wait(twice)
	r.StopWait(twice)
	if !r.Waits("o3") {
		t.Error("the second accept waits no more")
	}
	if r.StopWait(twice); r.Waits("o3") {
		t.Error("the registry has answered both, and o3 still waits")
	}
}
