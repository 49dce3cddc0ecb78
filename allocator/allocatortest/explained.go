package allocatortest

import (
	"fmt"
	"strings"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

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
