package registry

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tenderhq/tender/api"
)

// TestOperationsAreRemembered: R26. The latest stay, each once, and only what was done; a
// framework that is removed takes them with it.
func TestOperationsAreRemembered(t *testing.T) {
	s := New()
	apply := func(change Change) Result { return s.Apply(Command{At: epoch, Change: change}) }
	apply(AdmitAgent{Agent: api.Agent{}, Nonce: "n1", BootID: "b1"})
	apply(AdmitAgent{Agent: api.Agent{}, Nonce: "n2", BootID: "b1"})
	apply(Subscribe{Instance: "i1"})
	know := func(want ...Operation) {
		t.Helper()
		if got := s.Frameworks["framework-1"].Operations; !slices.Equal(got, want) {
			t.Errorf("remembered %v, want %v", got, want)
		}
	}
	set := func(agent api.AgentID, saw, reserved int, done ...api.OperationID) Result {
		return apply(SetReserved{ID: agent, Saw: api.Scalars(float64(saw), 1), Reserved: api.Scalars(float64(reserved), 1), Framework: "framework-1", Done: done})
	}
	apply(SetReserved{ID: "agent-1", Reserved: api.Scalars(1, 1)})
	apply(SetReserved{ID: "agent-2", Reserved: api.Scalars(1, 1)})
	know()
	set("agent-1", 1, 2, "a", "b")
	know(Operation{"a", "agent-1"}, Operation{"b", "agent-1"})
	if result := set("agent-1", 1, 3, "late"); result.Err == nil {
		t.Error("who saw less may reserve")
	}
	know(Operation{"a", "agent-1"}, Operation{"b", "agent-1"})
	set("agent-2", 1, 3, "a")
	know(Operation{"b", "agent-1"}, Operation{"a", "agent-2"})
	if result := apply(SetReserved{ID: "agent-2", Saw: api.Scalars(3, 1), Framework: "framework-9", Done: []api.OperationID{"x"}}); result.Err != nil {
		t.Errorf("a framework that is gone stops the reservation: %v", result.Err)
	}
	clone := s.Clone()
	var many []api.OperationID
	for i := range OperationsMax {
		many = append(many, api.OperationID(fmt.Sprint(i)))
	}
	set("agent-1", 2, 3, many...)
	set("agent-1", 3, 4, "last")
	got := s.Frameworks["framework-1"].Operations
	if len(got) != OperationsMax || got[0].ID != "1" || got[OperationsMax-1].ID != "last" {
		t.Errorf("%d are remembered, from %v to %v", len(got), got[0], got[len(got)-1])
	}
	if before := clone.Frameworks["framework-1"].Operations; len(before) != 2 {
		t.Errorf("the clone has %d", len(before))
	}
	apply(RemoveFramework{ID: "framework-1", Session: Whatever})
	know()
}
