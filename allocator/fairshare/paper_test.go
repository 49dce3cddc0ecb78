package fairshare_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/allocatortest"
	"github.com/tenderhq/tender/api"
)

func cluster(t *testing.T) *allocatortest.Cluster {
	return allocatortest.NewCluster(t, fresh(t)())
}

// running counts a framework's tasks.
func running(c *allocatortest.Cluster, id api.FrameworkID) (n int) {
	for _, task := range c.Tasks {
		if task.Framework == id {
			n++
		}
	}
	return n
}

// launchAll launches as many tasks of its framework from each offer as fit, until there are no more offers. What is
// left over is declined for an hour.
func launchAll(c *allocatortest.Cluster, tasks map[api.FrameworkID]api.Resources) {
	for {
		offers := c.Allocate()
		if len(offers) == 0 {
			return
		}
		for _, o := range offers {
			var launch []api.Resources
			for rest := o.Resources; ; {
				_, left, fits := rest.Carve(tasks[o.Framework])
				if !fits {
					break
				}
				rest, launch = left, append(launch, tasks[o.Framework])
			}
			c.Accept(o, time.Hour, launch...)
		}
	}
}

// DRF, NSDI'11, section 4.1: 9 cpus, 18 GB; user A's tasks take <1 cpu, 4 GB>, user B's
// <3 cpus, 1 GB>. A runs 3 and B runs 2 tasks; both hold two thirds of what they need most.
func TestPaper(t *testing.T) {
	c := cluster(t)
	tasks := map[api.FrameworkID]api.Resources{"A": c.R("cpus:1;mem:4096"), "B": c.R("cpus:3;mem:1024")}
	c.Framework("A", "a")
	c.Framework("B", "b")
	c.Demand("A", "a", c.Shape("cpus:1;mem:4096", 100))
	c.Demand("B", "b", c.Shape("cpus:3;mem:1024", 100))
	c.Agent("s1", "cpus:9;mem:18432")
	launchAll(c, tasks)
	if a, b := running(c, "A"), running(c, "B"); a != 3 || b != 2 {
		t.Fatalf("A runs %d and B %d tasks; the paper says 3 and 2", a, b)
	}
	for _, id := range []api.FrameworkID{"A", "B"} {
		if share := c.Policy.Shares().Frameworks[id]; share != 2.0/3 {
			t.Fatalf("the dominant share of %s is %v; the paper says 2/3", id, share)
		}
	}
}

// The same without stated demand: offers are capped to what a task takes.
func TestPaperWithCappedOffers(t *testing.T) {
	c := cluster(t)
	tasks := map[api.FrameworkID]api.Resources{"A": c.R("cpus:1;mem:4096"), "B": c.R("cpus:3;mem:1024")}
	for _, id := range []api.FrameworkID{"A", "B"} {
		c.SetFramework(allocator.Framework{Framework: api.Framework{ID: id, Roles: []api.Role{api.Role(id)}, MinOffer: tasks[id], MaxOffer: tasks[id]}, Active: true})
	}
	c.Agent("s1", "cpus:9;mem:18432")
	launchAll(c, tasks)
	if a, b := running(c, "A"), running(c, "B"); a != 3 || b != 2 {
		t.Fatalf("A runs %d and B %d tasks; the paper says 3 and 2", a, b)
	}
}

// Weighted (section 4.3): with weights 3 and 1 the shares settle at three to one. 160 cpus
// and 160 GB, A takes <1, 0.5>, B <0.5, 1>: A's dominant resource is cpus, B's memory.
func TestPaperWeighted(t *testing.T) {
	c := cluster(t)
	tasks := map[api.FrameworkID]api.Resources{"A": c.R("cpus:1;mem:512"), "B": c.R("cpus:0.5;mem:1024")}
	c.Role(allocator.Role{Role: "a", Weight: 3})
	c.Framework("A", "a")
	c.Framework("B", "b")
	c.Demand("A", "a", c.Shape("cpus:1;mem:512", 1000))
	c.Demand("B", "b", c.Shape("cpus:0.5;mem:1024", 1000))
	c.Agent("s1", "cpus:160;mem:163840")
	launchAll(c, tasks)
	shares := c.Policy.Shares().Frameworks
	if shares["A"] < 2.5*shares["B"] || shares["A"] > 3.5*shares["B"] {
		t.Fatalf("shares %v should be as 3 to 1", shares)
	}
}

// Roles a and b with weights 1 and 2 and endless small tasks settle at one third and two
// thirds of the dominant resource, with stated demand and without.
func TestWeightsSettle(t *testing.T) {
	for _, stated := range []bool{false, true} {
		t.Run(fmt.Sprintf("demand stated %v", stated), func(t *testing.T) {
			c := cluster(t)
			c.Role(allocator.Role{Role: "b", Weight: 2})
			c.Framework("fa", "a")
			c.Framework("fb", "b")
			for i := range 10 {
				c.Agent(api.AgentID(fmt.Sprintf("s%d", i)), "cpus:6;mem:16384")
			}
			task := c.R("cpus:0.5;mem:256")
			want := func() {
				if stated {
					c.Demand("fa", "a", api.Shape{Resources: task, Count: 1000})
					c.Demand("fb", "b", api.Shape{Resources: task, Count: 1000})
				}
			}
			want()
			tasks := map[api.FrameworkID]api.Resources{"fa": task, "fb": task}
			for round := range 60 {
				launchAll(c, tasks)
				for i := 0; i < 12; i++ { // the oldest tasks end, others take their place
					c.Finish(c.Tasks[0])
				}
				c.Sleep(2 * time.Hour)
				want()
				if round < 20 {
					continue
				}
				launchAll(c, tasks)
				roles := c.Policy.Shares().Roles
				if roles["a"] < 0.30 || roles["a"] > 0.37 || roles["b"] < 0.63 || roles["b"] > 0.70 {
					t.Fatalf("round %d: shares %v, want 1/3 and 2/3", round, roles)
				}
			}
		})
	}
}

// A tree: eng and ops are equals; inside eng a framework stands beside eng/web as its sibling.
func TestTree(t *testing.T) {
	c := cluster(t)
	c.Framework("ops", "ops")
	c.Framework("eng", "eng")
	c.Framework("web1", "eng/web")
	c.Framework("web2", "eng/web")
	for i := range 80 {
		c.Agent(api.AgentID(fmt.Sprintf("s%02d", i)), "cpus:1;mem:512")
	}
	c.Allocate()
	got := make(map[api.FrameworkID]int)
	for _, o := range c.Offers {
		got[o.Framework]++
	}
	if got["ops"] != 40 || got["eng"] != 20 || got["web1"] != 10 || got["web2"] != 10 {
		t.Fatalf("offers %v, want half, a quarter, and the other quarter halved", got)
	}
}

// TestSharesAreExplained: a framework that came after another one is told so, with the shares of both.
func TestSharesAreExplained(t *testing.T) {
	c := cluster(t)
	c.Framework("f1", "r")
	c.Agent("a1", "cpus:4;mem:4096")
	c.Framework("f2", "r")
	c.Framework("f3", "s")
	c.Allocate()
	c.Because("f2", "a1", "its last offer went to f1: share 1 now, against 0 of f2")
	c.Because("f3", "a1", "its last offer went to f1 in role r: weighted share 1 now, against 0 of role s")
}
