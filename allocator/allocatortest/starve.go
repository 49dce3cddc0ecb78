package allocatortest

import (
	"fmt"
	"testing"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"pgregory.net/rapid"
)

// starvation: among equal frameworks in a role that all state a demand, each is offered fitting resources after at most
// as many rounds as there are frameworks, however large its tasks are and whatever the others answer.
func starvation(t *testing.T, fresh func() allocator.Allocator) {
	rapid.Check(t, func(t *rapid.T) {
		c := NewCluster(t, fresh())
		most := 0
		for i := range rapid.IntRange(1, 3).Draw(t, "agents") {
			cpus := rapid.IntRange(1, 4).Draw(t, "cpus")
			most = max(most, cpus)
			c.Agent(api.AgentID(fmt.Sprintf("a%d", i)), fmt.Sprintf("cpus:%d;mem:%d", cpus, 1024*cpus))
		}
		equals := rapid.IntRange(2, 6).Draw(t, "equals")
		tasks := make(map[api.FrameworkID]api.Resources)
		for i := range equals {
			id := api.FrameworkID(fmt.Sprintf("f%d", i))
			cpus := rapid.IntRange(1, most).Draw(t, "size")
			tasks[id] = c.R(fmt.Sprintf("cpus:%d;mem:%d", cpus, 256*cpus))
			c.Framework(id, "r")
		}
		waits := make(map[api.FrameworkID]int)
		for range 4 * equals {
			for i := range equals {
				id := api.FrameworkID(fmt.Sprintf("f%d", i))
				c.Demand(id, "r", api.Shape{Resources: tasks[id], Count: int64(rapid.IntRange(1, 9).Draw(t, "count"))})
				waits[id]++
			}
			for _, o := range c.Allocate() {
				waits[o.Framework] = 0
				if rapid.IntRange(0, 3).Draw(t, "declines") > 0 {
					c.Accept(o, 0, tasks[o.Framework])
				} else {
					c.Decline(o, 0)
				}
			}
			for i := range equals {
				if id := api.FrameworkID(fmt.Sprintf("f%d", i)); waits[id] >= equals {
					t.Fatalf("%s has waited for %d rounds of fitting resources, as many as there are equals", id, waits[id])
				}
			}
			c.Sleep(allocator.DefaultOfferAgain)
			for len(c.Tasks) > 0 {
				c.Finish(c.Tasks[0])
			}
		}
	})
}
