package allocatortest

import (
	"fmt"
	"strings"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// explainedForEver: a guarantee that is not met holds everything back. It is not given as the reason to frameworks that
// could not be offered anything without it either.
func explainedForEver(c *Cluster) {
	c.Role(allocator.Role{Role: "rich", Guarantee: c.R("cpus:4;mem:4096")})
	c.Role(allocator.Role{Role: "poor", Limit: c.R("cpus:1")})
	c.Framework("limited", "poor")
	c.SetFramework(allocator.Framework{Framework: api.Framework{ID: "capped", Roles: []api.Role{"r"}, MaxOffer: c.R("cpus:1")}, Active: true})
	c.Framework("held", "r")
	c.Demand("limited", "poor", c.Shape("cpus:2;mem:32", 1))
	c.Demand("capped", "r", c.Shape("cpus:2;mem:32", 1))
	c.Demand("held", "r", c.Shape("cpus:2;mem:32", 1))
	c.Agent("a1", "cpus:4;mem:4096")
	c.Expect()
	c.Because("limited", "a1", "its role's limit allows cpus:1;mem:4096: role poor has cpus:0 of cpus:1")
	c.Because("capped", "a1", "capped wants cpus:2;mem:32, but says that its offers may hold no more than cpus:1")
	c.Because("held", "a1", "a1 is held back for guarantees: role rich lacks cpus:4")
	c.Role(allocator.Role{Role: "rich"})
	c.Expect("held a1 cpus:2;mem:32")
	c.Because("limited", "", "its role's limit allows cpus:1")
	c.Because("capped", "a1", "no more than cpus:1")
}

// explainedGuarantee: a framework that came after another role's guarantee is told so. Where shares decided, no
// guarantee is named.
func explainedGuarantee(c *Cluster) {
	roles := map[api.FrameworkID]api.Role{"f1": "g", "f2": "h"}
	c.Framework("f1", "g")
	c.Framework("f2", "h")
	c.Agent("a0", "cpus:1;mem:512")
	first, second := c.goesFirst("f1", "f2") // by the policy; a guarantee goes before it
	c.RemoveAgent("a0")
	role := roles[second]
	c.Role(allocator.Role{Role: role, Guarantee: c.R("cpus:2;mem:1024")})
	for _, id := range []api.FrameworkID{first, second} {
		c.Demand(id, roles[id], c.Shape("cpus:1;mem:32", 9))
	}
	c.Agent("a1", "cpus:2;mem:4096")
	c.Expect(string(second) + " a1 cpus:2;mem:64")
	c.Because(first, "a1", fmt.Sprintf("its last offer went to %s in role %s for the guarantee of role %s: cpus:2;mem:1024", second, role, role))
	c.Agent("a2", "cpus:4;mem:4096")
	if offers := c.Allocate(); len(offers) == 0 || c.Used(roles[first], "cpus") == 0 {
		c.Fatalf("%s has the cpus that it is guaranteed; that it lacks mem brings it no more of them: %s", role, c.Words(offers))
	}
	if why := c.Reasons(first, "a2"); strings.Contains(why, "for the guarantee") {
		c.Fatalf("no guarantee decided who was offered a2: %s", why)
	}
}

// explainedNearest: the first reason is about the agent that comes nearest to what the framework wants.
func explainedNearest(c *Cluster) {
	c.Framework("web", "r")
	c.Agent("small", "cpus:1;mem:4096")
	c.Agent("small-too", "cpus:1;mem:4096")
	c.Agent("full", "cpus:4;mem:4096")
	c.SetAgent(allocator.Agent{ID: "away", Total: c.R("cpus:4;mem:4096"), Why: "draining"})
	c.Allocate()
	c.Accept(c.Offer("web", "full"), time.Hour, c.R("cpus:3;mem:1024"))
	c.Suppress("web")
	c.Framework("batch", "r")
	c.Demand("batch", "r", c.Shape("cpus:2;mem:32", 1))
	c.Expect()
	if why := c.Reasons("batch", ""); !strings.HasPrefix(why, "full fits and is full: web holds 3 of 4 cpus") {
		c.Fatalf("the nearest agent is full; explained by %q", why)
	}
	c.Because("batch", "", "away is not offered: draining")
}

// explainedRoles: for a framework in several roles, each role is named and explained.
func explainedRoles(c *Cluster) {
	c.Framework("f1", "a", "b")
	c.Agent("a1", "cpus:4;mem:4096")
	c.Allocate()
	role := c.Offers[0].Role
	c.Accept(c.Offers[0], time.Hour, c.R("cpus:1;mem:32"))
	c.Suppress("f1", role)
	c.Allocate()
	for _, o := range c.Offers {
		c.Decline(o, time.Hour)
	}
	c.Because("f1", "a1", "f1 suppressed offers in role "+string(role))
	other := api.Role("a")
	if role == "a" {
		other = "b"
	}
	c.Because("f1", "a1", "in role "+string(other)+": f1 filtered a1 until 1 h from now")
}

// explainedRest: an agent is seldom taken whole. Where too little is left, the reason names what is left and who holds
// the rest.
func explainedRest(c *Cluster) {
	c.Framework("f1", "r")
	c.Agent("a1", "cpus:4;mem:4096;disk:100")
	c.Allocate()
	c.Accept(c.Offer("f1", "a1"), time.Hour, c.R("cpus:4;mem:4096"))
	c.Framework("f2", "r")
	c.Demand("f2", "r", c.Shape("cpus:1;mem:32", 1))
	c.Framework("f3", "r")
	c.Expect()
	c.Because("f2", "a1", "a1 has disk:100 free; f2 wants cpus:1;mem:32; f1 holds cpus:4;mem:4096; its last offer went to f1")
	c.Because("f3", "a1", "less than is worth offering to f3: cpus:0.01 or mem:32; f1 holds cpus:4;mem:4096")
}
