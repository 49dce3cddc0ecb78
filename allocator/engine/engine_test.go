package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/engine/internal/books"
	"github.com/tenderhq/tender/api"
)

func filled(t *testing.T, agents, frameworks int) *Engine {
	e := New(allocator.Config{}, byShare)
	total, err := api.ParseResources("cpus:8;mem:8192;ports:[31000-32000]")
	if err != nil {
		t.Fatal(err)
	}
	for i := range frameworks {
		e.SetFramework(allocator.Framework{Framework: api.Framework{ID: api.FrameworkID(fmt.Sprint("f", i)), Roles: []api.Role{"r"}}, Active: true})
	}
	for i := range agents {
		e.SetAgent(allocator.Agent{ID: api.AgentID(fmt.Sprint("a", i)), Total: total, Offerable: true})
	}
	return e
}

// A round in which nothing has changed allocates no memory, even with filters and open offers.
func TestNoMemoryWhenNothingChanges(t *testing.T) {
	e := filled(t, 20, 5)
	now := time.Unix(0, 0)
	for _, offer := range e.Allocate(now).Offers {
		e.Return(offer)
		e.Refuse(offer, now.Add(time.Hour))
	}
	e.Allocate(now)
	if n := testing.AllocsPerRun(100, func() {
		now = now.Add(time.Second)
		e.Allocate(now)
		e.Wake()
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

// The same holds with unmet demand, limits, guarantees and a policy that preempts.
func TestNoMemoryWhenNothingCanBeDone(t *testing.T) {
	e := New(allocator.Config{}, byPriority)
	for i := range 10 {
		e.SetAgent(allocator.Agent{ID: api.AgentID(fmt.Sprint("a", i)), Total: api.Scalars(4, 4096), Offerable: true})
	}
	for i := range 5 {
		id, role := api.FrameworkID(fmt.Sprint("f", i)), api.Role(fmt.Sprint("r", i))
		e.SetRole(allocator.Role{Role: role, Priority: i, Limit: api.Scalars(10, 0), Guarantee: api.Scalars(2, 1024)})
		e.SetFramework(allocator.Framework{Framework: api.Framework{ID: id, Roles: []api.Role{role}, Constraint: `zone != "moon"`}, Active: true})
		e.SetDemand(id, role, []api.Shape{{Resources: api.Scalars(3, 512), Count: 100}, {Resources: api.Scalars(30, 512), Count: 1}})
	}
	now := time.Unix(0, 0)
	for range 3 {
		for _, offer := range e.Allocate(now).Offers {
			offer.Task = api.TaskID(fmt.Sprint("t", offer.Agent))
			e.Launch(offer)
		}
	}
	if n := testing.AllocsPerRun(100, func() {
		e.Allocate(now)
		e.Wake()
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

// Filters that are forgotten or replaced free their memory, however many there are.
func TestFiltersAreSwept(t *testing.T) {
	e := filled(t, 10, 3)
	now := time.Unix(0, 0)
	for range 2000 {
		for _, offer := range e.Allocate(now).Offers {
			e.Return(offer)
			e.Refuse(offer, now.Add(365*24*time.Hour))
		}
		for i := range 3 {
			e.Revive(api.FrameworkID(fmt.Sprint("f", i)), nil)
		}
		now = now.Add(time.Millisecond)
	}
	if n := len(e.books.Filters.Ends); n > 3*books.StaleMax {
		t.Fatalf("%d ends of filters are kept", n)
	}
}

// Roles, looks and gates that nobody needs any more are forgotten.
func TestNothingIsLeftBehind(t *testing.T) {
	e := New(allocator.Config{}, byPriority)
	cpus := api.Scalars(1, 64)
	for i := range 100 {
		id, agent, name := api.FrameworkID(fmt.Sprint("f", i)), api.AgentID(fmt.Sprint("a", i)), api.Role(fmt.Sprint("r/", i))
		e.SetAgent(allocator.Agent{ID: agent, Total: cpus, Offerable: true, Attributes: map[string]string{"n": fmt.Sprint(i)}})
		e.SetFramework(allocator.Framework{Framework: api.Framework{ID: id, Roles: []api.Role{name}, Constraint: fmt.Sprintf("zone != %q", fmt.Sprint(i))}, Active: true})
		e.SetDemand(id, name, []api.Shape{{Resources: cpus, Count: 1, Constraint: `role != "x"`, Preferred: []api.AgentID{agent}}})
		e.SetRole(allocator.Role{Role: name, Priority: i, Limit: cpus})
		for _, offer := range e.Allocate(time.Unix(0, 0)).Offers {
			offer.Task = "t"
			e.Launch(offer)
		}
		e.Return(allocator.Claim{Framework: id, Role: name, Agent: agent, Resources: cpus, Task: "t"})
		e.SetRole(allocator.Role{Role: name})
		e.RemoveFramework(id)
		e.RemoveAgent(agent)
	}
	if len(e.books.Roles) > 0 || len(e.books.Looks) > 0 || len(e.books.ByKey) > 0 || len(e.books.Frameworks) > 0 || len(e.books.Preferred) > 0 || len(e.books.Moulds) > 0 || len(e.books.Tasks) > 0 {
		t.Errorf("left: roles %v, %d looks, %d gates, %d preferred, %d tasks", e.books.Roles, len(e.books.Looks), len(e.books.ByKey), len(e.books.Preferred), len(e.books.Tasks))
	}
	if len(e.books.Agents) > 1 || len(e.books.Members) > 1 || len(e.line.all.parts) > 250 {
		t.Errorf("numbers are not used again: %d agents, %d members, %d places", len(e.books.Agents), len(e.books.Members), len(e.line.all.parts))
	}
	if !e.books.Total.Zero() {
		t.Errorf("total %v", e.books.Total)
	}
}
