package registry

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
)

func TestMaintenance(t *testing.T) {
	s := New()
	apply := func(change Change) Result { return s.Apply(Command{At: epoch, Change: change}) }
	apply(AdmitAgent{Agent: api.Agent{}, Nonce: "n1", BootID: "b1"})
	apply(AdmitAgent{Agent: api.Agent{}, Nonce: "n2", BootID: "b1"})
	apply(AdmitAgent{Agent: api.Agent{}, Nonce: "n3", BootID: "b1"})
	apply(MarkAgent{ID: "agent-3", Saw: Whatever, Set: api.MarkGone})
	both, whatever := []api.AgentID{"agent-1", "agent-2"}, []uint64{Whatever, Whatever}
	window := api.Window{Start: epoch.Add(time.Hour), Duration: time.Hour}
	east := api.Window{Start: window.Start.In(time.FixedZone("east", 3600)), Duration: time.Hour}
	later := api.Window{Start: epoch.Add(2 * time.Hour)}
	marked := func(id api.AgentID, marks api.Mark, planned api.Window, maintained bool) func() bool {
		return func() bool {
			a := s.Agents[id]
			return a.Marks == marks && a.Maintenance == planned && a.Maintained == maintained
		}
	}
	for _, step := range []struct {
		what   string
		change Change
		kind   api.Kind
		holds  func() bool
	}{
		{"set", SetMaintenance{Agents: both, Saw: whatever, Window: east}, 0, marked("agent-2", 0, window, false)},
		{"one is unknown, so none", SetMaintenance{Agents: []api.AgentID{"agent-1", "agent-9"}, Saw: whatever, Window: later}, api.NotFound, marked("agent-1", 0, window, false)},
		{"one is gone, so none", SetMaintenance{Agents: []api.AgentID{"agent-1", "agent-3"}, Saw: whatever, Window: later}, api.Removed, marked("agent-1", 0, window, false)},
		{"too many", SetMaintenance{Agents: make([]api.AgentID, MaintenanceAgentsMax+1), Saw: whatever, Window: later}, api.Limit, marked("agent-1", 0, window, false)},
		{"before its time by negative length", SetMaintenance{Agents: both, Saw: whatever, Window: api.Window{Start: epoch, Duration: -1}}, api.Invalid, marked("agent-1", 0, window, false)},
		{"length alone", SetMaintenance{Agents: both, Saw: whatever, Window: api.Window{Duration: 1}}, api.Invalid, marked("agent-1", 0, window, false)},
		{"who saw it before", BeginMaintenance{"agent-1", 1}, api.Stale, marked("agent-1", 0, window, false)},
		{"begin", BeginMaintenance{"agent-1", 2}, 0, marked("agent-1", api.MarkDraining, window, true)},
		{"begin again", BeginMaintenance{"agent-1", 3}, 0, marked("agent-1", api.MarkDraining, window, true)},
		{"the end of another window", SetMaintenance{Agents: both, Saw: []uint64{3, 1}}, api.Stale, marked("agent-1", api.MarkDraining, window, true)},
		{"the end", SetMaintenance{Agents: []api.AgentID{"agent-1"}, Saw: []uint64{3}}, 0, marked("agent-1", 0, api.Window{}, false)},
		{"an operator's drain", MarkAgent{ID: "agent-2", Saw: Whatever, Set: api.MarkDraining, Why: "mine"}, 0, marked("agent-2", api.MarkDraining, window, false)},
		{"begin of what drains", BeginMaintenance{"agent-2", 3}, 0, marked("agent-2", api.MarkDraining, window, false)},
		{"its end leaves the drain", SetMaintenance{Agents: []api.AgentID{"agent-2"}, Saw: whatever}, 0, marked("agent-2", api.MarkDraining, api.Window{}, false)},
		{"set anew", SetMaintenance{Agents: []api.AgentID{"agent-1"}, Saw: whatever, Window: window}, 0, marked("agent-1", 0, window, false)},
		{"begin anew", BeginMaintenance{"agent-1", 5}, 0, marked("agent-1", api.MarkDraining, window, true)},
		{"reactivated", MarkAgent{ID: "agent-1", Saw: Whatever, Clear: api.MarkDraining | api.MarkDrained}, 0, marked("agent-1", 0, api.Window{}, false)},
	} {
		got := apply(step.change)
		if (step.kind == 0) != (got.Err == nil) || got.Err != nil && got.Err.Kind != step.kind {
			t.Errorf("%s: got %+v, want %v", step.what, got, step.kind)
		}
		if !step.holds() {
			t.Errorf("%s: agents are %+v", step.what, s.Agents)
		}
	}
}

// TestFormatOnlyGrows: R24. The registry's format only grows, to one that this version knows.
func TestFormatOnlyGrows(t *testing.T) {
	Format = 2 // as if there were a later one
	defer func() { Format = 1 }()
	s := New()
	apply := func(change Change) Result { return s.Apply(Command{At: epoch, Change: change}) }
	refused := func(what string, kind api.Kind, got Result) {
		t.Helper()
		if got.Err == nil || got.Err.Kind != kind {
			t.Errorf("%s: %+v", what, got)
		}
	}
	refused("a format of the future", api.Unsupported, apply(RaiseFormat{Format: Format + 1}))
	refused("a format of the past", api.Stale, apply(RaiseFormat{Format: 1}))
	before := s.print()
	s.Format = 1 // what 0 means
	if s.print() != before {
		t.Error("format 0 and 1 are not one")
	}
	if s.Format >= Format {
		t.Error("a format is known before it was raised")
	}
	if got := apply(RaiseFormat{Format: Format}); got.Err != nil || s.Format < Format || s.print() == before {
		t.Errorf("raised: %+v", got)
	}
	refused("raised again", api.Stale, apply(RaiseFormat{Format: Format}))
}

// TestAPrincipalHasItsShare: what all its frameworks keep leaves room for those of others, also after a restart, which
// counts anew, and when one of them is removed.
func TestAPrincipalHasItsShare(t *testing.T) {
	s := New()
	apply := func(change Change) Result { return s.Apply(Command{At: epoch, Change: change}) }
	for i, principal := range []string{"etl", "etl", "web", "", ""} {
		apply(Subscribe{Instance: api.Nonce(fmt.Sprint("i", i+1)), Framework: api.Framework{Principal: principal}})
	}
	put := func(framework api.FrameworkID, size int) error {
		if got := apply(PutEntry{Framework: framework, Session: 1, Key: "k", Value: make([]byte, size-1), AllMax: 4000}); got.Err != nil {
			return got.Err
		}
		return nil
	}
	for _, step := range []struct {
		framework api.FrameworkID
		size      int
		limited   bool
	}{
		{"framework-1", 2000, false},
		{"framework-2", 1001, true}, // etl has three of four
		{"framework-2", 1000, false},
		{"framework-1", 1999, false},
		{"framework-3", 500, false}, // web
		{"framework-4", 400, false}, // without a principal
	} {
		if err := put(step.framework, step.size); (err != nil) != step.limited || step.limited && !api.Is(err, api.Limit) {
			t.Errorf("%d bytes for %s: %v", step.size, step.framework, err)
		}
	}
	s = s.Clone()
	if err := put("framework-1", 2001); err == nil || !strings.Contains(err.Error(), `principal "etl" hold 2999 bytes, and may hold 3000`) {
		t.Errorf("counted anew: %v", err)
	}
	if got := apply(RemoveFramework{ID: "framework-2", Session: Whatever}); got.Err != nil {
		t.Fatal(got.Err)
	}
	if err := put("framework-1", 2500); err != nil {
		t.Errorf("what was removed counts: %v", err)
	}
	old := api.Framework{ID: "framework-3", Principal: "web", Labels: map[string]string{"a": "b"}}
	has := s.index().living["web"]
	has.bytes = principalsShare(FrameworksBytesMax)
	s.index().living["web"] = has
	if got := apply(UpdateFramework{Framework: old, Session: 1}); got.Err == nil || got.Err.Kind != api.Limit {
		t.Errorf("labels beyond the share: %+v", got)
	}
	old.ID, old.Principal = "framework-1", "etl"
	if got := apply(UpdateFramework{Framework: old, Session: 1}); got.Err != nil {
		t.Errorf("another's: %+v", got)
	}
}

// TestTheLimitOfAllStoresComesWithTheWrite: so every master decides alike, whatever it
// was told itself.
func TestTheLimitOfAllStoresComesWithTheWrite(t *testing.T) {
	s := New()
	apply := func(change Change) Result { return s.Apply(Command{At: epoch, Change: change}) }
	apply(Subscribe{Instance: "i1"})
	apply(Subscribe{Instance: "i2"})
	put := func(framework api.FrameworkID, key string, size int, all uint64) Result {
		return apply(PutEntry{Framework: framework, Session: 1, Key: key, Value: make([]byte, size), AllMax: all})
	}
	limited := func(got Result) bool { return got.Err != nil && got.Err.Kind == api.Limit }
	if got := put("framework-1", "a", 99, 200); got.Err != nil {
		t.Fatal(got)
	}
	if got := put("framework-2", "b", 99, 199); !limited(got) {
		t.Errorf("beyond the limit: %+v", got)
	}
	if got := put("framework-2", "b", 99, 200); got.Err != nil {
		t.Errorf("just within it: %+v", got)
	}
	if got := put("framework-2", "b", 98, 10); got.Err != nil {
		t.Errorf("what shrinks is taken, though a new leader's limit is lower: %+v", got)
	}
	if got := put("framework-2", "b", 99, 0); got.Err != nil {
		t.Errorf("no limit but the registry's own: %+v", got)
	}
	if got := put("framework-2", "b", 100, 1<<62); got.Err != nil || s.StoreBytes() != 201 {
		t.Errorf("more than the registry's own is the registry's own: %+v, %d bytes", got, s.StoreBytes())
	}
}

// TestSomeWritesKeepRoomFree: a write of new work is refused while there is still room for others, by each of the bounds.
func TestSomeWritesKeepRoomFree(t *testing.T) {
	s := New()
	apply := func(change Change) Result { return s.Apply(Command{At: epoch, Change: change}) }
	apply(Subscribe{Instance: "i1"})
	const ok = api.Internal // no refusal is of this kind
	put := func(key string, size int, all, keepFree uint64) api.Kind {
		got := apply(PutEntry{Framework: "framework-1", Session: 1, Key: key, Value: make([]byte, size), AllMax: all, KeepFree: keepFree})
		if got.Err == nil {
			return ok
		}
		return got.Err.Kind
	}
	for _, step := range []struct {
		what     string
		size     int
		keepFree uint64
		want     api.Kind
	}{
		{"a fifth is kept free", 80, 20, api.Limit},
		{"just so much", 79, 20, ok},
		{"one byte more", 80, 20, api.Limit},
		{"one byte more of older work", 80, 5, ok},
		{"what shrinks", 79, 100, ok},
		{"all of it", 99, 0, ok},
		{"more than there is", 100, 0, api.Limit},
		{"more than all is kept free", 1, 101, api.Invalid},
	} {
		if got := put("a", step.size, 100, step.keepFree); got != step.want {
			t.Errorf("%s: %v, want %v", step.what, got, step.want)
		}
	}
	full := int64(StoreFrameworkBytesMax)
	for i := 0; s.StoreBytes()+StoreValueBytesMax+10 <= full/100*80; i++ {
		if got := put(fmt.Sprint("big", i), StoreValueBytesMax, 0, 20); got != ok {
			t.Fatalf("value %d: %v", i, got)
		}
	}
	if got := put("new", StoreValueBytesMax, 0, 20); got != api.Limit {
		t.Errorf("the framework's own bound: %v", got)
	}
	if got := put("old", StoreValueBytesMax, 0, 5); got != ok {
		t.Errorf("older work has room: %v", got)
	}
}
