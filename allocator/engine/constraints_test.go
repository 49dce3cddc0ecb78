package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// A constraint is evaluated once for each combination of attributes and place, whatever the number of agents that have
// it, of frameworks that state it and of rounds. A constraint that names the host is evaluated once for each agent.
func TestConstraintsAreEvaluatedOnce(t *testing.T) {
	for expr, want := range map[string]int{
		`attributes["rack"] != "r1" && zone == "z"`: 3,
		`hostname != "h7"`:                          300,
	} {
		e := New(allocator.Config{}, byShare)
		for i := range 300 {
			e.SetAgent(allocator.Agent{
				ID: api.AgentID(fmt.Sprint("a", i)), Hostname: fmt.Sprint("h", i), Total: api.Scalars(1, 64), Offerable: true,
				Attributes: map[string]string{"rack": fmt.Sprint("r", i%3)}, Zone: "z",
			})
		}
		for i := range 5 {
			id := api.FrameworkID(fmt.Sprint("f", i))
			e.SetFramework(allocator.Framework{Framework: api.Framework{ID: id, Roles: []api.Role{"r"}, Constraint: expr}, Active: true})
		}
		now := time.Unix(0, 0)
		for range 3 {
			for _, offer := range e.Allocate(now).Offers {
				e.Return(offer)
				e.Refuse(offer, now.Add(time.Second))
			}
			now = now.Add(time.Minute)
		}
		e.SetDemand("f1", "r", []api.Shape{{Resources: api.Scalars(1, 32), Count: 3, Constraint: expr}})
		e.Allocate(now)
		if e.books.Judged != want {
			t.Errorf("%s was evaluated %d times, want %d", expr, e.books.Judged, want)
		}
	}
}
