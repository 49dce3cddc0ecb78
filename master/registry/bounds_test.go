package registry

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
)

func words(bytes int) map[string]string { return map[string]string{"word": strings.Repeat("x", bytes)} }

func manyPorts(ranges int) api.Resources {
	var list []api.Range
	for i := range ranges {
		list = append(list, api.Range{Begin: uint64(4 * i), End: uint64(4*i + 1)})
	}
	var items []api.Resource
	for i := 0; i < len(list); i += api.RangesMax {
		items = append(items, api.Resource{Label: api.Label{Name: fmt.Sprint("ports", i)}, Ranges: api.NewRanges(list[i:min(i+api.RangesMax, len(list))]...)})
	}
	return api.NewResources(items...)
}

// TestNounsHaveBounds: R34. What is larger than masters store is refused with Limit and changes nothing.
func TestNounsHaveBounds(t *testing.T) {
	huge := manyPorts(12_000)
	large := []Change{
		AdmitAgent{Agent: api.Agent{Hostname: "h", Attributes: words(api.LabelsBytesMax)}, Nonce: "big"},
		AdmitAgent{Agent: api.Agent{Hostname: strings.Repeat("h", 256)}, Nonce: "big"},
		AdmitAgent{Agent: api.Agent{Resources: huge}, Nonce: "big"},
		AdmitAgent{Nonce: "big", BootID: strings.Repeat("b", api.TextBytesMax+1)},
		UpdateAgent{Agent: api.Agent{ID: "agent-1", Attributes: words(api.LabelsBytesMax)}},
		MarkAgent{ID: "agent-1", Saw: Whatever, Set: api.MarkDraining, Why: strings.Repeat("w", api.TextBytesMax+1)},
		SetReserved{ID: "agent-1", Reserved: huge},
		Subscribe{Framework: api.Framework{Name: "f", Labels: words(api.LabelsBytesMax)}, Instance: "big"},
		Subscribe{Framework: api.Framework{Name: "f", Endpoints: words(api.LabelsBytesMax)}, Instance: "big"},
		Subscribe{Framework: api.Framework{Name: strings.Repeat("f", 256)}, Instance: "big"},
		Subscribe{Framework: api.Framework{Name: "f", MaxOffer: manyPorts(1000)}, Instance: "big"},
		Subscribe{Framework: api.Framework{Name: "f", FailoverTimeout: api.FailoverTimeoutMax + 1}, Instance: "big"},
		Subscribe{Framework: api.Framework{Name: "f", Roles: make([]api.Role, 65)}, Instance: "big"},
		Readmit{Framework: api.Framework{ID: "framework-9", Labels: words(api.LabelsBytesMax)}},
		UpdateFramework{Framework: api.Framework{ID: "framework-1", Labels: words(api.LabelsBytesMax)}, Session: 1},
		RemoveFramework{ID: "framework-1", Session: Whatever, Why: strings.Repeat("w", api.TextBytesMax+1)},
		SetRole{Role: "web", Set: Role{Limit: huge}},
		SetRole{Role: "web", Set: Role{Guarantee: huge}},
		SetMaster{ID: "m1", Master: Master{GRPC: strings.Repeat("g", api.TextBytesMax+1)}},
	}
	for _, change := range large {
		refused(t, counted(t, 1, 1), api.Limit, change)
	}
}

// TestKindsHaveBounds: R34. All nouns of a kind together have a bound too; what makes them
// smaller is taken.
func TestKindsHaveBounds(t *testing.T) {
	s := counted(t, 1, 1)
	labels := api.Framework{ID: "framework-1", Labels: words(1000)}
	done(t, s, UpdateFramework{Framework: labels, Session: 1})
	done(t, s, SetRole{Role: "web", Set: Role{Weight: 1}, SawQuotas: Whatever})
	s.index().agentBytes, s.index().frameworkBytes, s.index().roleBytes = AgentsBytesMax, FrameworksBytesMax, RolesBytesMax
	refused(t, s, api.Limit, AdmitAgent{Nonce: "more"})
	refused(t, s, api.Limit, UpdateAgent{Agent: api.Agent{ID: "agent-1", Hostname: "h"}})
	refused(t, s, api.Limit, SetReserved{ID: "agent-1", Reserved: api.Scalars(1, 1)})
	refused(t, s, api.Limit, Subscribe{Framework: api.Framework{Name: "more"}, Instance: "more"})
	refused(t, s, api.Limit, Readmit{Framework: api.Framework{ID: "framework-9"}})
	refused(t, s, api.Limit, SetRole{Role: "eng", Set: Role{Weight: 1}, SawQuotas: Whatever})
	done(t, s, SetRole{Role: "web", Saw: Role{Weight: 1}, SawQuotas: Whatever})
	labels.Labels = nil
	done(t, s, UpdateFramework{Framework: labels, Session: 1})
	done(t, s, UpdateFramework{Framework: api.Framework{ID: "framework-1", Labels: words(900)}, Session: 1})
	s.index().frameworkBytes = 0
	s.index().living[""] = holding{frameworks: FrameworksPerPrincipalMax}
	refused(t, s, api.Limit, Subscribe{Framework: api.Framework{Name: "f"}, Instance: "more"})
	done(t, s, Subscribe{Framework: api.Framework{Name: "f", Principal: "another"}, Instance: "more"})
}

// TestWritersOfNothingLeaveNothing: R34. A write that names no living session is not kept for its client. What an
// instance wrote is not kept either once another instance has replaced it.
func TestWritersOfNothingLeaveNothing(t *testing.T) {
	s := counted(t, 0, 2)
	write := func(client string, counter uint64, change Change) Result {
		return s.Apply(Command{Client: client, Counter: counter, At: epoch, Change: change})
	}
	key := strings.Repeat("k", 1<<20)
	for i, change := range []Change{
		PutEntry{Framework: "framework-77", Session: 1, Key: "k"},
		PutEntry{Framework: "framework-1", Session: 9, Key: "k"},
		PutEntry{Framework: "framework-1", Session: 1, Key: key},
		DeleteEntry{Framework: "framework-77", Session: 1, Key: "k"},
	} {
		if got := write(fmt.Sprint("instance/", i), 1, change); got.Err == nil || len(s.Clients) > 0 {
			t.Errorf("%T came to %v and leaves %d clients", change, got.Err, len(s.Clients))
		}
	}
	version := uint64(9)
	write("m1/1", 1, PutEntry{Framework: "framework-1", Session: 1, Key: "k", IfVersion: &version})
	write("m1/2", 1, MarkAgent{ID: api.AgentID(key), Saw: Whatever})
	for name, client := range s.Clients {
		if n := len(client.Result.Err.Error()); n > 3*SubjectBytesMax {
			t.Errorf("%d bytes of a refusal are kept for %s", n, name)
		}
	}
	for lane := range uint32(3) {
		write(StoreClient("i1", lane), 1, PutEntry{Framework: "framework-1", Session: 1, Key: "k"})
		write(StoreClient("i2", lane), 1, PutEntry{Framework: "framework-2", Session: 1, Key: "k"})
	}
	done(t, s, Subscribe{Framework: api.Framework{ID: "framework-1"}, Instance: "i3"})
	done(t, s, RemoveFramework{ID: "framework-2", Session: Whatever, Why: "done"})
	if len(s.Clients) != 2 {
		t.Errorf("%d clients are kept, of instances that are no more", len(s.Clients))
	}
	long := Command{Client: strings.Repeat("c", ClientBytesMax+1), Counter: 1, At: epoch, Change: SetRole{Role: "web", Set: Role{Weight: 1}}}
	if got := s.Apply(long); !api.Is(got.Err, api.Limit) || len(s.Roles) > 0 {
		t.Errorf("a proposer's name of %d bytes: %v", len(long.Client), got.Err)
	}
}

// TestGoneAgentsAreForgotten: R16, R34. Who was marked gone is forgotten like a tombstone, and
// refused by its number when it comes back.
func TestGoneAgentsAreForgotten(t *testing.T) {
	s := counted(t, 3, 0)
	first := epoch.Add(time.Hour)
	s.Apply(Command{At: first, Change: MarkAgent{ID: "agent-1", Saw: Whatever, Set: api.MarkGone}})
	s.Apply(Command{At: first.Add(time.Hour), Change: MarkAgent{ID: "agent-2", Saw: Whatever, Set: api.MarkGone}})
	done(t, s, Expire{Before: first})
	if len(s.Agents) != 3 {
		t.Fatalf("%d agents are left", len(s.Agents))
	}
	done(t, s, Expire{Before: first.Add(time.Minute)})
	refused(t, s, api.Removed, AdmitAgent{Agent: api.Agent{ID: "agent-1"}, Nonce: "n1"})
	if len(s.Agents) != 2 {
		t.Fatalf("%d agents are left", len(s.Agents))
	}
	done(t, s, Expire{Before: first.Add(2 * time.Hour)})
	done(t, s, Expire{Before: first.Add(3 * time.Hour)})
	if len(s.Agents) != 1 || s.index().gone != 0 {
		t.Fatalf("%d agents are left, %d of them gone", len(s.Agents), s.index().gone)
	}
}

// TestOperationsHaveABoundInBytes: R34.
func TestOperationsHaveABoundInBytes(t *testing.T) {
	s := counted(t, 1, 1)
	for i := range 10 {
		var ids []api.OperationID
		for n := range 50 {
			ids = append(ids, api.OperationID(fmt.Sprintf("%0255d", 50*i+n)))
		}
		done(t, s, SetReserved{ID: "agent-1", Framework: "framework-1", Done: ids})
	}
	operations := s.Frameworks["framework-1"].Operations
	if size := operationsBytes(operations); size > OperationsBytesMax || len(operations) < 200 || operations[len(operations)-1].ID != api.OperationID(fmt.Sprintf("%0255d", 499)) {
		t.Errorf("%d operations of %d bytes are kept", len(operations), size)
	}
}
