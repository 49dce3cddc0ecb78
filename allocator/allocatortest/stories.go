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
	{"the example of the Mesos paper", mesosExample},
	{EqualsTakeTurns, equalsTakeTurns},
	{"one framework in several roles", severalRoles},
	{"a filter hides what is no more than was refused", filters},
	{"revive forgets filters", revive},
	{"suppress is silence", suppress},
	{"an inactive framework is offered nothing", inactive},
	{"a withheld framework is offered nothing, and keeps what it holds", withheld},
	{"too little is not offered", minimumOffer},
	{"a capped offer leaves the rest to others", cappedOffer},
	{"constraints choose agents", constraints},
	{"a constraint is judged again when attributes change", attributesChange},
	{"reservations are for the role and those below", reservations},
	{"agents that are away are not offered", awayAgents},
	{"a limit caps a role and all below", limits},
	{"room under a limit is offered at once", limitRoom},
	{"room under a limit is used on any agent", limitElsewhere},
	{"ports and gpus are limited too", limitKinds},
	{"a guarantee is held back", guarantees},
	{"guarantees nest", nestedGuarantees},
	{"no offers under a limit during the recovery hold", recoveryHold},
	{"demand gates and sizes offers", demandSizes},
	{"demand is not offered twice", demandOnce},
	{"preferred agents come first", preferred},
	{"only preferred agents", onlyPreferred},
	{"use beyond the requests is not offered", use},
	{"revocable resources are offered to who takes them", revocableOffered},
	{"revocable resources count in no share", revocableShares},
	{"revocable resources count in no limit and meet no guarantee", revocableQuota},
	{"a demand for revocable resources", revocableDemand},
	{"a gap that shrinks below what is held", revocableShrinks},
	{KeptIsAskedBack, keptIsAskedBack},
	{"what a guarantee needs may be kept", keptUndemanded},
	{"who wants nothing lets others go first", yielding},
	{"and does so only for a while", yieldEnds},
	{NoEqualStarves, nobodyStarves},
	{"every shape has its own constraint", shapeConstraints},
	{"tasks that are spread go where the fewest are", spreadStory},
	{"an agent that goes takes its claims with it", agentGoes},
	{"what is unknown is ignored", unknowns},
	{"explanations", explanations},
	{"what can never be is explained before what passes", explainedForEver},
	{"a guarantee that goes first is named", explainedGuarantee},
	{"the nearest reason comes first", explainedNearest},
	{"every role is explained", explainedRoles},
	{"who has too little left is told who has the rest", explainedRest},
}

// mesosExample is from section 2 of NSDI'11 and the site of Mesos: framework 2 is offered exactly what framework 1
// left.
func mesosExample(c *Cluster) {
	c.Framework("f1", "a")
	c.Agent("s1", "cpus:4;mem:4096")
	c.Expect("f1 s1 cpus:4;mem:4096")
	c.Framework("f2", "b")
	tasks := c.Accept(c.Offer("f1", "s1"), 5*time.Second, c.R("cpus:2;mem:1024"), c.R("cpus:1;mem:2048"))
	c.Expect("f2 s1 cpus:1;mem:1024")
	c.Accept(c.Offer("f2", "s1"), 5*time.Second, c.R("cpus:1;mem:1024"))
	c.Expect()
	c.Finish(tasks[0])
	offers := c.Allocate() // f2 has refused <1 cpu, 1 GB>, which is less than this
	if len(offers) != 1 || !offers[0].Resources.Equal(c.R("cpus:2;mem:1024")) {
		c.Fatalf("what a task left is offered at once; got %s", c.Words(offers))
	}
}

func equalsTakeTurns(c *Cluster) {
	c.Framework("f1", "r")
	c.Framework("f2", "r")
	for i := range 6 {
		c.Agent(api.AgentID(fmt.Sprintf("a%d", i)), "cpus:2;mem:2048")
	}
	c.Expect("f1 a0 cpus:2;mem:2048", "f2 a1 cpus:2;mem:2048", "f1 a2 cpus:2;mem:2048",
		"f2 a3 cpus:2;mem:2048", "f1 a4 cpus:2;mem:2048", "f2 a5 cpus:2;mem:2048")
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

func filters(c *Cluster) {
	c.Framework("f1", "r")
	c.Agent("a1", "cpus:4;mem:1024")
	c.Allocate()
	tasks := c.Accept(c.Offer("f1", "a1"), 10*time.Second, c.R("cpus:1;mem:512"))
	c.Expect()
	c.Because("f1", "a1", "f1 filtered a1 until 10 s from now")
	if want := c.Now.Add(10 * time.Second); !c.Policy.Wake().Equal(want) {
		c.Fatalf("wakes at %v, want %v", c.Policy.Wake(), want)
	}
	c.Sleep(9 * time.Second)
	c.Expect()
	c.Finish(tasks[0])
	c.Expect("f1 a1 cpus:4;mem:1024") // more than was refused
	c.Decline(c.Offer("f1", "a1"), 10*time.Second)
	c.Expect()
	c.Sleep(10 * time.Second)
	c.Expect("f1 a1 cpus:4;mem:1024")
	c.Decline(c.Offer("f1", "a1"), 0)
	c.Sleep(allocator.DefaultOfferAgain)
	c.Expect("f1 a1 cpus:4;mem:1024")
}

func revive(c *Cluster) {
	c.Framework("f1", "r")
	c.Agent("a1", "cpus:4;mem:1024")
	c.Allocate()
	c.Decline(c.Offer("f1", "a1"), time.Hour)
	c.Expect()
	c.Revive("f1")
	c.Expect("f1 a1 cpus:4;mem:1024")
}

func suppress(c *Cluster) {
	c.Framework("f1", "r")
	c.Agent("a1", "cpus:4;mem:1024")
	c.Suppress("f1")
	c.Expect()
	c.Because("f1", "a1", "f1 suppressed offers in role r")
	c.Because("f1", "", "f1 suppressed offers in role r")
	c.Revive("f1")
	c.Expect("f1 a1 cpus:4;mem:1024")
}

func inactive(c *Cluster) {
	c.Framework("f1", "r")
	c.Agent("a1", "cpus:4;mem:1024")
	c.Allocate()
	c.Decline(c.Offer("f1", "a1"), time.Hour)
	f := c.Frameworks["f1"]
	f.Active = false
	c.SetFramework(f)
	c.Expect()
	c.Because("f1", "a1", "f1 is not subscribed")
	f.Active = true
	c.SetFramework(f)
	c.Expect("f1 a1 cpus:4;mem:1024") // its filters were forgotten with its session
}

func withheld(c *Cluster) {
	f := allocator.Framework{Framework: api.Framework{ID: "f1", Principal: "etl", Roles: []api.Role{"r"}}, Active: true}
	c.SetFramework(f)
	c.Agent("a1", "cpus:4;mem:1024")
	c.Agent("a2", "cpus:4;mem:1024")
	c.Allocate()
	c.Decline(c.Offer("f1", "a1"), time.Hour)
	c.filtersOf("etl", 1)
	f.Withheld = "principal etl has 1 filter"
	c.SetFramework(f)
	c.Decline(c.Offer("f1", "a2"), -1)
	c.Agent("a3", "cpus:4;mem:1024")
	c.Sleep(time.Minute)
	c.Expect()
	c.Because("f1", "a3", "f1 is offered nothing more for now: principal etl has 1 filter")
	f.Withheld = ""
	c.SetFramework(f)
	c.Expect("f1 a2 cpus:4;mem:1024", "f1 a3 cpus:4;mem:1024") // its filter has stayed
	f.Principal = "web"
	c.SetFramework(f)
	c.filtersOf("etl", 0)
	c.filtersOf("web", 1)
	c.Revive("f1")
	c.filtersOf("web", 0)
}

// filtersOf compares how many filters the policy counts for the principal, if it counts them.
func (c *Cluster) filtersOf(principal string, want int) {
	c.Helper()
	if policy, counts := c.Policy.(allocator.FilterCounter); counts && policy.Filters(principal) != want {
		c.Fatalf("principal %s has %d filters, and not %d", principal, policy.Filters(principal), want)
	}
}

func minimumOffer(c *Cluster) {
	c.Framework("f1", "r")
	c.Agent("a1", "cpus:0.009;mem:31")
	c.Expect()
	c.Because("f1", "a1", "less than is worth offering to f1: cpus:0.01 or mem:32")
	c.Agent("a2", "cpus:0.01;mem:31")
	c.Agent("a3", "mem:32")
	c.Expect("f1 a2 cpus:0.01;mem:31", "f1 a3 mem:32")
	c.SetFramework(allocator.Framework{Framework: api.Framework{ID: "f2", Roles: []api.Role{"q"}, MinOffer: c.R("cpus:2;mem:100")}, Active: true})
	c.Suppress("f1")
	c.Agent("a4", "cpus:8;mem:64")
	c.Expect()
	c.Agent("a5", "cpus:2;mem:100")
	c.Expect("f2 a5 cpus:2;mem:100")
}

func cappedOffer(c *Cluster) {
	c.SetFramework(allocator.Framework{Framework: api.Framework{ID: "f1", Roles: []api.Role{"r"}, MaxOffer: c.R("cpus:1")}, Active: true})
	c.Agent("a1", "cpus:4;mem:1024")
	c.Expect("f1 a1 cpus:1;mem:1024")
	c.Because("f1", "a1", "f1")
	c.Decline(c.Offer("f1", "a1"), 0)
	c.Framework("f2", "r")
	c.Expect("f2 a1 cpus:4;mem:1024") // f1 lets f2 go first, because it gave an offer back untouched
	c.Accept(c.Offer("f2", "a1"), time.Hour, c.R("cpus:1;mem:512"))
	c.Sleep(allocator.DefaultOfferAgain)
	c.Expect("f1 a1 cpus:1;mem:512")
	c.Accept(c.Offer("f1", "a1"), 0, c.R("cpus:1;mem:256"))
	c.Expect("f1 a1 cpus:1;mem:256") // answered: the next piece
}

func constraints(c *Cluster) {
	c.SetFramework(allocator.Framework{Framework: api.Framework{ID: "f1", Roles: []api.Role{"r"}, Constraint: `attributes["rack"] == "r1" && hostname.startsWith("h")`}, Active: true})
	for i, rack := range []string{"r1", "r2", ""} {
		a := allocator.Agent{ID: api.AgentID(fmt.Sprintf("a%d", i)), Hostname: fmt.Sprintf("h%d", i), Total: c.R("cpus:1;mem:512"), Offerable: true}
		if rack != "" {
			a.Attributes = map[string]string{"rack": rack}
		}
		c.SetAgent(a)
	}
	c.Expect("f1 a0 cpus:1;mem:512")
	c.Because("f1", "a1", `a1 fails the constraint attributes["rack"] == "r1"`)
	c.Because("f1", "a2", "no such key")
	c.Because("f1", "", "fail a constraint")
}

func attributesChange(c *Cluster) {
	c.SetFramework(allocator.Framework{Framework: api.Framework{ID: "f1", Roles: []api.Role{"r"}, Constraint: `zone == "z1"`}, Active: true})
	c.SetAgent(allocator.Agent{ID: "a1", Zone: "z2", Total: c.R("cpus:1;mem:512"), Offerable: true})
	c.Expect()
	c.SetAgent(allocator.Agent{ID: "a1", Zone: "z1", Total: c.R("cpus:1;mem:512"), Offerable: true})
	c.Expect("f1 a1 cpus:1;mem:512")
	c.Decline(c.Offer("f1", "a1"), time.Hour)
	c.Expect()
	c.SetAgent(allocator.Agent{ID: "a1", Zone: "z1", Attributes: map[string]string{"disk": "ssd"}, Total: c.R("cpus:1;mem:512"), Offerable: true})
	c.Expect("f1 a1 cpus:1;mem:512") // it is another agent now: the filter is forgotten
	c.Decline(c.Offer("f1", "a1"), 0)
	c.SetFramework(allocator.Framework{Framework: api.Framework{ID: "f1", Roles: []api.Role{"r"}, Constraint: `zone == "z2"`}, Active: true})
	c.Expect()
	c.SetFramework(allocator.Framework{Framework: api.Framework{ID: "f1", Roles: []api.Role{"r"}}, Active: true})
	c.Expect("f1 a1 cpus:1;mem:512")
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

func awayAgents(c *Cluster) {
	c.Framework("f1", "r")
	c.SetAgent(allocator.Agent{ID: "a1", Total: c.R("cpus:1;mem:512"), Why: "draining"})
	c.Expect()
	c.Because("f1", "a1", "a1 is not offered: draining")
	c.Because("f1", "", "a1 is not offered: draining")
	c.Agent("a1", "cpus:1;mem:512")
	c.Expect("f1 a1 cpus:1;mem:512")
	c.SetAgent(allocator.Agent{ID: "a1", Total: c.R("cpus:1;mem:512"), Why: "disconnected"})
	c.Expect()
	c.Agent("a1", "cpus:1;mem:512")
	c.Expect("f1 a1 cpus:1;mem:512")
}

func limits(c *Cluster) {
	c.Role(allocator.Role{Role: "eng", Limit: c.R("cpus:3")})
	c.Role(allocator.Role{Role: "eng/web", Limit: c.R("cpus:2;mem:10000")})
	c.Framework("f1", "eng/web")
	c.Framework("f2", "eng/db")
	c.Agent("a1", "cpus:8;mem:1024")
	offers := c.Allocate()
	if len(offers) == 0 {
		c.Fatalf("a role under its limit is offered something")
	}
	if used := c.Used("eng", "cpus"); used != 2000 && used != 3000 {
		c.Fatalf("eng is offered up to a limit, got %d", used)
	}
	c.Agent("a2", "cpus:8;mem:1024")
	c.Allocate()
	if used := c.Used("eng", "cpus"); used != 3000 {
		c.Fatalf("eng is offered all of its limit, got %d", used)
	}
	c.Because("f1", "a2", "its limit of cpus: it has")
}

func limitRoom(c *Cluster) {
	c.Role(allocator.Role{Role: "r", Limit: c.R("cpus:2")})
	c.Framework("f1", "r")
	c.Agent("a1", "cpus:1;mem:512")
	c.Agent("a2", "cpus:1;mem:512")
	c.Agent("a3", "cpus:1;mem:512")
	c.Expect("f1 a1 cpus:1;mem:512", "f1 a2 cpus:1;mem:512")
	c.Because("f1", "a3", "role r is at its limit of cpus: it has 2 of 2")
	task := c.Accept(c.Offer("f1", "a1"), 0, c.R("cpus:1;mem:512"))
	c.Expect()
	c.Finish(task[0])
	c.Suppress("f1")
	c.Expect()
	c.Revive("f1")
	if offers := c.Allocate(); len(offers) != 1 {
		c.Fatalf("one more is allowed, got %s", c.Words(offers))
	}
	c.Role(allocator.Role{Role: "r", Limit: c.R("cpus:3")})
	if offers := c.Allocate(); len(offers) != 1 {
		c.Fatalf("a raised limit is used at once, got %s", c.Words(offers))
	}
}

// limitElsewhere: room under a limit may come from another agent than the one that is offered. Here the agent is
// removed on which the role had used up its limit.
func limitElsewhere(c *Cluster) {
	c.Role(allocator.Role{Role: "r", Limit: c.R("cpus:1")})
	c.Framework("f1", "r")
	c.Agent("a1", "cpus:1;mem:512")
	c.Agent("a2", "cpus:1;mem:512")
	c.Expect("f1 a1 cpus:1;mem:512")
	c.Accept(c.Offer("f1", "a1"), 0, c.R("cpus:1;mem:512"))
	c.Expect()
	c.RemoveAgent("a1")
	c.Expect("f1 a2 cpus:1;mem:512")
}

func limitKinds(c *Cluster) {
	c.Role(allocator.Role{Role: "r", Limit: c.R("ports:[1-3];gpus:1")})
	c.Framework("f1", "r")
	c.Agent("a1", "cpus:4;mem:1024;gpus:4;ports:[31000-31001,31005-31009]")
	c.Expect("f1 a1 cpus:4;gpus:1;mem:1024;ports:[31000-31001,31005]")
	c.Agent("a2", "cpus:4;mem:1024;gpus:4;ports:[31000-31001]")
	c.Expect("f1 a2 cpus:4;mem:1024")
}

func guarantees(c *Cluster) {
	c.Role(allocator.Role{Role: "g", Guarantee: c.R("cpus:3;mem:1536")})
	c.Framework("f1", "other")
	for i := range 5 {
		c.Agent(api.AgentID(fmt.Sprintf("a%d", i)), "cpus:1;mem:512")
	}
	if offers := c.Allocate(); len(offers) != 2 {
		c.Fatalf("three agents are held back for the guarantee, got %s", c.Words(offers))
	}
	c.Because("f1", "a4", "held back for guarantees: role g lacks cpus:3")
	c.Framework("f2", "g")
	if offers := c.Allocate(); len(offers) != 3 || offers[0].Framework != "f2" {
		c.Fatalf("the guarantee is met, got %s", c.Words(offers))
	}
	c.Decline(c.Offer("f1", "a0"), 0)
	if offers := c.Allocate(); len(offers) != 1 {
		c.Fatalf("a guarantee that is met holds nothing back, got %s", c.Words(offers))
	}
	c.Role(allocator.Role{Role: "g"})
	c.Expect()
}

func nestedGuarantees(c *Cluster) {
	c.Role(allocator.Role{Role: "eng", Guarantee: c.R("cpus:3")})
	c.Role(allocator.Role{Role: "eng/web", Guarantee: c.R("cpus:2")})
	c.Framework("other", "ops")
	c.Framework("db", "eng/db")
	c.Framework("web", "eng/web")
	c.Suppress("web")
	for i := range 4 {
		c.Agent(api.AgentID(fmt.Sprintf("a%d", i)), "cpus:1;mem:512")
	}
	c.Allocate()
	if used := c.Used("ops", "cpus"); used > 1000 {
		c.Fatalf("ops gets what is not guaranteed to eng, got %d", used)
	}
	if used := c.Used("eng/db", "cpus"); used > 2000 {
		c.Fatalf("two cpus are kept for eng/web, eng/db got %d", used)
	}
	c.Revive("web")
	c.Allocate()
	if used := c.Used("eng/web", "cpus"); used < 2000 {
		c.Fatalf("eng/web is guaranteed 2, got %d", used)
	}
}

func recoveryHold(c *Cluster) {
	c.Role(allocator.Role{Role: "l", Limit: c.R("cpus:10")})
	c.Framework("f1", "l/below")
	c.Hold(true)
	c.Agent("a1", "cpus:1;mem:512")
	c.Expect()
	c.Because("f1", "a1", "waits for the agents to come back")
	c.Hold(false)
	c.Expect("f1 a1 cpus:1;mem:512")
	c.Framework("f2", "free")
	c.Hold(true)
	c.Agent("a2", "cpus:1;mem:512")
	c.Expect("f2 a2 cpus:1;mem:512")
}

func demandSizes(c *Cluster) {
	c.Framework("f1", "r")
	c.Demand("f1", "r", c.Shape("cpus:1;mem:512", 2))
	c.Agent("a1", "cpus:0.5;mem:512")
	c.Expect()
	c.Because("f1", "a1", "a1 has cpus:0.5;mem:512 free; f1 wants cpus:1;mem:512")
	c.Agent("a2", "cpus:8;mem:8192")
	c.Expect("f1 a2 cpus:2;mem:1024")
	c.Demand("f1", "r")
	c.Decline(c.Offer("f1", "a2"), 0)
	c.Expect()
	c.Because("f1", "a2", "f1 wants nothing more in role r")
	c.Demand("f1", "r", c.Shape("cpus:100;mem:1", 1))
	c.Expect()
	c.Because("f1", "", "f1 wants cpus:100;mem:1, more than any agent has")
	c.NoDemand("f1", "r")
	c.Expect("f1 a1 cpus:0.5;mem:512", "f1 a2 cpus:8;mem:8192")
}

func demandOnce(c *Cluster) {
	c.Framework("f1", "r")
	c.Demand("f1", "r", c.Shape("cpus:1;mem:512", 3))
	c.Agent("a1", "cpus:2;mem:2048")
	c.Agent("a2", "cpus:2;mem:2048")
	c.Agent("a3", "cpus:2;mem:2048")
	c.Expect("f1 a1 cpus:2;mem:1024", "f1 a2 cpus:1;mem:512")
	c.Because("f1", "a3", "in offers that it has not answered")
	c.Decline(c.Offer("f1", "a2"), time.Hour)
	c.Expect("f1 a3 cpus:1;mem:512")
	c.Accept(c.Offer("f1", "a1"), time.Hour, c.R("cpus:1;mem:512"), c.R("cpus:1;mem:512"))
	c.Accept(c.Offer("f1", "a3"), time.Hour, c.R("cpus:1;mem:512"))
	c.Expect()
}

func preferred(c *Cluster) {
	c.Framework("f1", "r")
	shape := c.Shape("cpus:1;mem:512", 2)
	shape.Preferred = []api.AgentID{"a3"}
	c.Demand("f1", "r", shape)
	for i := range 4 {
		c.Agent(api.AgentID(fmt.Sprintf("a%d", i)), "cpus:1;mem:512")
	}
	c.Expect("f1 a3 cpus:1;mem:512", "f1 a0 cpus:1;mem:512")
}

func onlyPreferred(c *Cluster) {
	c.Framework("f1", "r")
	shape := c.Shape("cpus:1;mem:512", 2)
	shape.Preferred, shape.OnlyPreferred = []api.AgentID{"a3"}, true
	c.Demand("f1", "r", shape)
	for i := range 4 {
		c.Agent(api.AgentID(fmt.Sprintf("a%d", i)), "cpus:1;mem:512")
	}
	c.Expect("f1 a3 cpus:1;mem:512")
	c.Because("f1", "a0", "f1 is waiting for locality: a0 is none of the agents that it prefers")
}

func use(c *Cluster) {
	c.Framework("f1", "r")
	c.Agent("a1", "cpus:4;mem:4096")
	c.Allocate()
	tasks := c.Accept(c.Offer("f1", "a1"), 0, c.R("cpus:1;mem:1024"))
	c.Policy.Use("a1", c.R("cpus:1.5"))
	c.Expect("f1 a1 cpus:1.5;mem:3072") // 4 less the 1 that was asked for and 1.5 beyond
	c.Decline(c.Offer("f1", "a1"), 0)
	c.Policy.Use("a1", c.R("cpus:0.5"))
	c.Expect("f1 a1 cpus:2.5;mem:3072")
	c.Decline(c.Offer("f1", "a1"), 0)
	c.Policy.Use("a1", c.R("cpus:9;mem:4096"))
	c.Expect()
	c.Because("f1", "a1", "cpus:3;mem:3072 is in use beyond what was asked for")
	c.Finish(tasks[0])
	c.Policy.Use("a1", api.Resources{})
	c.Expect("f1 a1 cpus:4;mem:4096")
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

func agentGoes(c *Cluster) {
	c.Framework("f1", "r")
	c.Agent("a1", "cpus:4;mem:4096")
	c.Agent("a2", "cpus:4;mem:4096")
	c.Allocate()
	c.Accept(c.Offer("f1", "a1"), time.Hour, c.R("cpus:1;mem:1024"))
	if share := c.Policy.Shares().Frameworks["f1"]; share != 0.625 {
		c.Fatalf("f1 holds 5 of 8 cpus: %v", share)
	}
	c.RemoveAgent("a1")
	if share := c.Policy.Shares().Frameworks["f1"]; share != 1 {
		c.Fatalf("f1 holds all of a2: %v", share)
	}
	c.Agent("a1", "cpus:4;mem:4096")
	c.Expect("f1 a1 cpus:4;mem:4096") // neither claims nor filters are left
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

func explanations(c *Cluster) {
	c.Framework("f1", "r")
	c.Because("f1", "", "there are no agents")
	c.Agent("a1", "cpus:4;mem:4096")
	c.Expect("f1 a1 cpus:4;mem:4096")
	c.Framework("f2", "r")
	c.Expect()
	c.Because("f2", "a1", "a1 has nothing free for role r: f1 holds cpus:4;mem:4096; its last offer went to f1")
	c.Because("f1", "", "f1 has not answered offers of 1 agent in")
	c.Suppress("f2")
	c.Accept(c.Offer("f1", "a1"), time.Hour, c.R("cpus:1;mem:1024"))
	c.Expect()
	c.Because("f1", "", "f1 filtered a1 until 1 h from now")
}
