package allocatortest

import (
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// yieldRounds is the most rounds for which a framework may have to let others go first because it gave offers back.
const yieldRounds = 100

// yieldEnds: a framework that gave offers back untouched gets its turn again, even if another one always wants what it
// would be offered.
func yieldEnds(c *Cluster) {
	c.Framework("f1", "r")
	c.Framework("f2", "r")
	c.Agent("a1", "cpus:1;mem:512")
	idle, _ := c.goesFirst("f1", "f2")
	c.Decline(c.Offer(idle, "a1"), 0)
	for range 3 { // idle yields longer each time
		c.idles(idle)
		waited := 0
		for ; waited <= yieldRounds; waited++ {
			c.Sleep(allocator.DefaultOfferAgain)
			offers := c.Allocate()
			if len(offers) != 1 {
				c.Fatalf("one agent is free, got %s", c.Words(offers))
			}
			if offers[0].Framework == idle {
				break
			}
			c.Finish(c.Accept(offers[0], 0, c.R("cpus:1;mem:512"))[0])
		}
		if waited > yieldRounds {
			c.Fatalf("it has let the other go first for %d rounds", waited)
		}
		c.Decline(c.Offer(idle, "a1"), 0)
	}
}

// idles runs two rounds. The idle framework gives back each offer that it gets, and others launch a task that ends at
// once.
func (c *Cluster) idles(idle api.FrameworkID) {
	for range 2 {
		c.Sleep(allocator.DefaultOfferAgain)
		for _, o := range c.Allocate() {
			if o.Framework == idle {
				c.Decline(o, 0)
			} else {
				c.Finish(c.Accept(o, 0, c.R("cpus:1;mem:512"))[0])
			}
		}
	}
}

// shapeConstraints: each shape of a demand has its own constraint. An agent that suits one shape need not suit the
// others.
func shapeConstraints(c *Cluster) {
	c.Framework("f1", "r")
	here, there := c.Shape("cpus:1;mem:64", 9), c.Shape("cpus:2;mem:64", 9)
	here.Constraint, there.Constraint = `zone == "z1"`, `zone == "z2"`
	c.Demand("f1", "r", here, there)
	c.SetAgent(allocator.Agent{ID: "a1", Total: c.R("cpus:1;mem:512"), Zone: "z2", Offerable: true})
	c.Expect()
	c.Because("f1", "a1", `a1 fails the constraint zone == "z1" of f1`)
	c.SetAgent(allocator.Agent{ID: "a2", Total: c.R("cpus:1;mem:512"), Zone: "z1", Offerable: true})
	c.SetAgent(allocator.Agent{ID: "a3", Total: c.R("cpus:2;mem:512"), Zone: "z2", Offerable: true})
	c.Expect("f1 a2 cpus:1;mem:64", "f1 a3 cpus:2;mem:64")
	c.Decline(c.Offer("f1", "a2"), time.Hour)
	c.SetAgent(allocator.Agent{ID: "a4", Total: c.R("cpus:1;mem:512"), Zone: "z3", Offerable: true})
	c.Expect()
	for _, id := range []api.AgentID{"a1", "a4"} {
		c.Because("f1", id, "fails the constraint")
	}
}

func yielding(c *Cluster) {
	c.Framework("f1", "r")
	c.Framework("f2", "r")
	c.Agent("a1", "cpus:1;mem:512")
	idle, busy := c.goesFirst("f1", "f2")
	c.Decline(c.Offer(idle, "a1"), 0)
	c.Expect(string(busy) + " a1 cpus:1;mem:512")
	c.Agent("a2", "cpus:1;mem:512")
	c.Agent("a3", "cpus:1;mem:512")
	c.Suppress(busy)
	c.Expect(string(idle)+" a2 cpus:1;mem:512", string(idle)+" a3 cpus:1;mem:512")
}

// goesFirst returns which of two frameworks is offered the only agent, and the other one. Whose turn it is first is for
// the policy to say.
func (c *Cluster) goesFirst(one, two api.FrameworkID) (first, second api.FrameworkID) {
	offers := c.Allocate()
	if len(offers) != 1 {
		c.Fatalf("one agent is free, got %s", c.Words(offers))
	}
	if offers[0].Framework == one {
		return one, two
	}
	return two, one
}
