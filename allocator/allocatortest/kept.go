package allocatortest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// takeBack rescinds the kept offers that are asked back, as the core does, and returns the inverse offer without them.
// It fails if nothing is old enough to be asked back, if a framework is asked for its own sake, and if the framework
// for which it is asked does not want what is free then.
func (c *Cluster) takeBack(inverse allocator.Inverse) allocator.Inverse {
	c.Helper()
	tasks := inverse
	tasks.Victims = nil
	var gone api.Resources
	for _, claim := range inverse.Victims {
		if claim.Task != "" {
			tasks.Victims = append(tasks.Victims, claim)
			continue
		}
		before := len(c.Offers)
		for _, o := range slices.Clone(c.Offers) {
			if o.Framework == claim.Framework && o.Role == claim.Role && o.Agent == claim.Agent && !c.Now.Before(o.Since.Add(allocator.OfferStands)) {
				gone = gone.Plus(o.Resources)
				c.TookBack = append(c.TookBack, o)
				c.giveBack(o)
			}
		}
		if len(c.Offers) == before {
			c.Fatalf("asked back what %s keeps of %s in role %s for %s, and it keeps nothing there", claim.Framework, claim.Agent, claim.Role, inverse.For)
		}
		if claim.Framework == inverse.For {
			c.Fatalf("asked back what %s keeps for itself", claim.Framework)
		}
	}
	if len(tasks.Victims) == len(inverse.Victims) {
		return tasks
	}
	free := c.Free(inverse.Agent)
	fits := slices.ContainsFunc(c.demand[key(inverse.For, inverse.Role)], func(s api.Shape) bool {
		_, _, with := free.Carve(s.Resources)
		return with && s.Count > 0
	})
	if !fits {
		c.Fatalf("asked back %s of %s for %s in role %s, which does not want it", gone, inverse.Agent, inverse.For, inverse.Role)
	}
	return tasks
}

// keptByAll: all frameworks want everything there is and answer nothing. What one of them keeps may go to another, but
// ever less often.
func keptByAll(t *testing.T, fresh func() allocator.Allocator) {
	rapid.Check(t, func(t *rapid.T) {
		c := NewCluster(quiet{t}, fresh())
		frameworks := rapid.IntRange(2, 4).Draw(t, "frameworks")
		for i := range frameworks {
			id := api.FrameworkID(fmt.Sprintf("f%d", i))
			c.Framework(id, api.Role(rapid.SampledFrom([]string{"a", "a/x", "b"}).Draw(t, "role")))
			if rapid.IntRange(0, 3).Draw(t, "stated") > 0 {
				shape := c.Shape(fmt.Sprintf("cpus:%d;mem:512", rapid.IntRange(1, 4).Draw(t, "cpus")), 9)
				c.Demand(id, c.Frameworks[id].Roles[0], shape)
			}
		}
		agents := rapid.IntRange(1, 3).Draw(t, "agents")
		for i := range agents {
			c.Agent(api.AgentID(fmt.Sprintf("a%d", i)), "cpus:4;mem:4096")
		}
		for range 600 {
			c.Allocate()
			c.Sleep(allocator.OfferStands)
		}
		if most := 24 * frameworks * agents; len(c.TookBack) > most {
			t.Fatalf("in %v offers were asked back %d times; more than %d goes back and forth", 600*time.Second, len(c.TookBack), most)
		}
	})
}
