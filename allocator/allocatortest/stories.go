package allocatortest

import (
	"fmt"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// story is one rule, shown by an example that every policy must pass.
type story struct {
	name string
	tell func(*Cluster)
}

var stories = []story{
	{"one framework in several roles", severalRoles},
	{"reservations are for the role and those below", reservations},
	{"revocable resources count in no share", revocableShares},
	{"who wants nothing lets others go first", yielding},
	{"and does so only for a while", yieldEnds},
	{NoEqualStarves, nobodyStarves},
	{"what is unknown is ignored", unknowns},
	{"a guarantee that goes first is named", explainedGuarantee},
	{"every role is explained", explainedRoles},
}

func severalRoles(c *Cluster) {
	c.Framework("f1", "a", "b")
	c.Agent("s1", "cpus(a):1;cpus(b):2;cpus:4;mem:512")
	offers := c.Allocate()
	if len(offers) != 2 || offers[0].Role == offers[1].Role {
		c.Fatalf("one offer for each role, got %s", c.Words(offers))
	}
	for _, o := range offers {
		if want := o.Resources.Filter(func(l api.Label) bool { return l.Reserved == o.Role }); want.IsZero() {
			c.Fatalf("role %s is offered its reservation, got %s", o.Role, o.Resources)
		}
	}
	c.Suppress("f1", "a")
	for _, o := range offers {
		c.Decline(o, 0)
	}
	c.Sleep(allocator.DefaultOfferAgain)
	c.Expect("f1 s1 cpus:4;cpus(b):2;mem:512")
}

func reservations(c *Cluster) {
	c.Framework("f1", "eng/web")
	c.Framework("f2", "ops")
	c.Agent("a1", "cpus(eng):2;mem(eng):1024;cpus(ops):1;cpus(eng/db):4;mem(eng/db):64")
	c.ExpectAll("f2 a1 cpus(ops):1", "f1 a1 cpus(eng):2;mem(eng):1024")
	shares := c.Policy.Shares()
	if shares.Roles["eng"] < 0.99 || shares.Roles["eng/db"] != 4.0/7 {
		c.Fatalf("reservations count in shares, used or not: %v", shares.Roles)
	}
	c.Decline(c.Offer("f1", "a1"), 0)
	if again := c.Policy.Shares(); again.Roles["eng"] != shares.Roles["eng"] || again.Roles["eng/web"] != 0 {
		c.Fatalf("what is reserved counts once: %v", again.Roles)
	}
}

// nobodyStarves: a demand is offered fitting resources after at most as many rounds as there are frameworks with demand
// in its role, whatever the others do with their offers.
func nobodyStarves(c *Cluster) {
	const equals = 7
	for i := range equals {
		id := api.FrameworkID(fmt.Sprintf("f%d", i))
		c.Framework(id, "r")
		c.Demand(id, "r", c.Shape("cpus:1;mem:512", 1))
	}
	c.Agent("a1", "cpus:1;mem:512")
	offered := make(map[api.FrameworkID]int)
	for range 3 * equals {
		offers := c.Allocate()
		if len(offers) != 1 {
			c.Fatalf("one fits, got %s", c.Words(offers))
		}
		offered[offers[0].Framework]++
		c.Decline(offers[0], 0)
		c.Sleep(allocator.DefaultOfferAgain)
	}
	for i := range equals {
		if id := api.FrameworkID(fmt.Sprintf("f%d", i)); offered[id] != 3 {
			c.Fatalf("%s was offered the agent %d times in %d rounds: %v", id, offered[id], 3*equals, offered)
		}
	}
}

func unknowns(c *Cluster) {
	claim := allocator.Claim{Framework: "f9", Role: "r", Agent: "a9", Resources: c.R("cpus:1"), Task: "t"}
	everything := func() {
		c.Policy.Take(claim)
		c.Policy.Launch(claim)
		c.Policy.Return(claim)
		c.Policy.Refuse(claim, c.Now.Add(time.Hour))
		c.Policy.Use(claim.Agent, claim.Resources)
		c.Policy.Suppress(claim.Framework, nil)
		c.Policy.Revive(claim.Framework, nil)
		c.Policy.SetDemand(claim.Framework, claim.Role, nil)
		c.Policy.RemoveAgent("a8")
		c.Policy.RemoveFramework("f8")
		c.Policy.Explain(claim.Framework, claim.Agent, c.Now)
		c.Expect()
	}
	everything()
	c.Agent("a9", "cpus:4;mem:64")
	everything()
	c.RemoveAgent("a9")
	c.Framework("f9", "other")
	everything()
	c.Because("f9", "a7", "a7 is not known")
	c.Because("f7", "a7", "f7 is not known")
}
