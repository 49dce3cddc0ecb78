package allocatortest

import (
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
