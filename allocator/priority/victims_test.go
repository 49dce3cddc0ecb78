package priority_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/allocatortest"
	"github.com/tenderhq/tender/api"
	"pgregory.net/rapid"
)

// Of two tasks of the same age on one agent the smaller one is asked back if it is enough, whatever their IDs are.
func TestPreemptsTheSmallerOfEquals(t *testing.T) {
	for _, first := range []string{"cpus:1;mem:512", "cpus:3;mem:1024"} {
		c := cluster(t)
		c.Framework("l", "low")
		c.Agent("a", "cpus:4;mem:1536")
		c.Allocate()
		second := "cpus:1;mem:512"
		if first == second {
			second = "cpus:3;mem:1024"
		}
		c.Accept(c.Offer("l", "a"), 0, c.R(first), c.R(second))
		c.Framework("h", "high")
		c.Demand("h", "high", c.Shape("cpus:1;mem:512", 1))
		c.Allocate()
		if len(c.Inverse) != 1 || len(c.Inverse[0].Victims) != 1 || !c.Inverse[0].Victims[0].Resources.Equal(c.R("cpus:1;mem:512")) {
			t.Fatalf("launched %s first: %v", first, c.Inverse)
		}
	}
}

// The same holds on two agents: the one that gives up less is chosen.
func TestPreemptsTheSmallerAgentOfEquals(t *testing.T) {
	c := cluster(t)
	c.Framework("l", "low")
	c.Agent("a", "cpus:3;mem:1024")
	c.Agent("b", "cpus:1;mem:512")
	c.Allocate()
	c.Accept(c.Offer("l", "a"), 0, c.R("cpus:3;mem:1024"))
	c.Accept(c.Offer("l", "b"), 0, c.R("cpus:1;mem:512"))
	c.Framework("h", "high")
	c.Demand("h", "high", c.Shape("cpus:1;mem:512", 1))
	c.Allocate()
	expect(t, victims(c), "b")
}

// A guarantee may forbid to take both the young and the old task. Either of them alone can still be taken.
func TestPreemptsPastAGuarantee(t *testing.T) {
	c := cluster(t)
	c.Framework("l", "low")
	c.Agent("a", "cpus:6;mem:6144")
	c.Allocate()
	c.Accept(c.Offer("l", "a"), 0, c.R("cpus:3;mem:3072"), c.R("cpus:2;mem:2048"))
	c.Sleep(time.Second)
	c.Allocate()
	c.Accept(c.Offer("l", "a"), 0, c.R("cpus:1;mem:1024"))
	c.Role(allocator.Role{Role: "low", Priority: 1, Guarantee: c.R("cpus:3")})
	c.Framework("h", "high")
	c.Demand("h", "high", c.Shape("cpus:3;mem:256", 1))
	c.Allocate()
	if len(c.Inverse) != 1 || len(c.Inverse[0].Victims) != 1 || !c.Inverse[0].Victims[0].Resources.Equal(c.R("cpus:3;mem:3072")) {
		t.Fatalf("the 3 cpus alone leave the guarantee of 3: %v", c.Inverse)
	}
}

// price orders sets of victims: first by priority and launch of the dearest task, then by their number, then by how
// much of the cluster they hold.
type price struct {
	rank  int
	age   int // of the dearest task, in seconds
	count int
	share int // cpus; all tasks of this test have the same memory
}

func (p price) less(q price) bool {
	return slices.Compare([]int{p.rank, p.age, p.count, p.share}, []int{q.rank, q.age, q.count, q.share}) < 0
}

// Of all sets of tasks that would make room, none is cheaper than the one that is chosen.
func TestVictimsAreTheCheapest(t *testing.T) {
	type task struct{ rank, age, cpus int }
	rapid.Check(t, func(t *rapid.T) {
		c := allocatortest.NewCluster(quiet{t}, fresh(nil)())
		tasks := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) task {
			return task{rapid.IntRange(0, 2).Draw(t, "rank"), rapid.IntRange(0, 2).Draw(t, "age"), rapid.IntRange(1, 5).Draw(t, "cpus")}
		}), 1, 6).Draw(t, "tasks")
		sum := 0
		for rank := range 3 {
			role := api.Role(fmt.Sprint("r", rank))
			c.Role(allocator.Role{Role: role, Priority: rank})
			c.Framework(api.FrameworkID(role), role)
		}
		for _, one := range tasks {
			sum += one.cpus
		}
		c.Agent("a", fmt.Sprintf("cpus:%d;mem:1000", sum))
		for i, one := range tasks {
			role := api.Role(fmt.Sprint("r", one.rank))
			claim := allocator.Claim{Framework: api.FrameworkID(role), Role: role, Agent: "a", Task: api.TaskID(fmt.Sprint(i)),
				Resources: c.R(fmt.Sprintf("cpus:%d;mem:1", one.cpus)), Since: c.Now.Add(-time.Duration(one.age) * time.Second)}
			c.Policy.Take(claim)
			c.Tasks = append(c.Tasks, claim)
		}
		need := rapid.IntRange(1, sum).Draw(t, "need")
		c.Role(allocator.Role{Role: "high", Priority: 9})
		c.Framework("h", "high")
		c.Demand("h", "high", c.Shape(fmt.Sprintf("cpus:%d", need), 1))
		c.Allocate()
		if len(c.Inverse) != 1 {
			t.Fatalf("%d cpus would fit, but %d sets are asked back", need, len(c.Inverse))
		}
		cost := func(set []int) price {
			p := price{count: len(set), rank: -1}
			for _, i := range set {
				one := tasks[i]
				p.share += one.cpus
				if one.rank > p.rank || one.rank == p.rank && one.age > p.age {
					p.rank, p.age = one.rank, one.age
				}
			}
			return p
		}
		var chosen []int
		for _, v := range c.Inverse[0].Victims {
			var i int
			if _, err := fmt.Sscan(string(v.Task), &i); err != nil {
				t.Fatal(err)
			}
			chosen = append(chosen, i)
		}
		got := cost(chosen)
		for bits := 1; bits < 1<<len(tasks); bits++ {
			var set []int
			for i := range tasks {
				if bits>>i&1 == 1 {
					set = append(set, i)
				}
			}
			if p := cost(set); p.share >= need && p.less(got) && (p.count <= 2 || p.rank < got.rank || p.rank == got.rank && p.age < got.age) {
				t.Fatalf("%d cpus of %v: asked %v back (%+v), but %v costs less (%+v)", need, tasks, chosen, got, set, p)
			}
		}
	})
}

// quiet leaves out the log of the cluster.
type quiet struct{ *rapid.T }

func (quiet) Logf(string, ...any) {}

// A framework that is asked for a task may choose. If it gives up something else on this agent that is enough, the
// named task is spared. It is also spared when the demand is gone.
func TestSparesWhoIsNeededNoMore(t *testing.T) {
	for _, withdrawn := range []bool{false, true} {
		c := cluster(t)
		c.Framework("l", "low")
		c.Agent("a", "cpus:2;mem:1024")
		c.Allocate()
		tasks := c.Accept(c.Offer("l", "a"), 0, c.R("cpus:1;mem:512"), c.R("cpus:1;mem:512"))
		c.Suppress("l")
		c.Framework("h", "high")
		c.Demand("h", "high", c.Shape("cpus:1;mem:512", 1))
		c.Expect()
		if len(c.Inverse) != 1 || len(c.Inverse[0].Victims) != 1 {
			t.Fatalf("one is asked back: %v", c.Inverse)
		}
		named := c.Inverse[0].Victims[0].Task
		if withdrawn {
			c.Demand("h", "high")
			c.Expect()
		} else {
			for _, other := range tasks {
				if other.Task != named {
					c.Finish(other)
				}
			}
			c.Expect("h a cpus:1;mem:512")
		}
		if len(c.Spared) != 1 || c.Spared[0].Task != named {
			t.Fatalf("withdrawn %v: %s is needed no more; spared are %v", withdrawn, named, c.Spared)
		}
		c.Expect()
		if len(c.Inverse) != 1 {
			t.Fatalf("asked back again: %v", c.Inverse)
		}
	}
}

// The victims of one demand end one after the other. What they leave is kept for that demand, and is not offered to
// others.
func TestKeepsWhileVictimsEnd(t *testing.T) {
	c := cluster(t)
	c.Framework("l", "low")
	c.Agent("a", "cpus:2;mem:1024")
	c.Allocate()
	tasks := c.Accept(c.Offer("l", "a"), 0, c.R("cpus:1;mem:512"), c.R("cpus:1;mem:512"))
	c.Framework("h", "high")
	c.Demand("h", "high", c.Shape("cpus:2;mem:1024", 1))
	c.Expect()
	c.Finish(tasks[0])
	c.Expect()
	c.Because("l", "a", "what is free of a is kept for h, for which tasks were preempted")
	c.Finish(tasks[1])
	c.Expect("h a cpus:2;mem:1024")
	if len(c.Spared) > 0 {
		t.Fatalf("spared %v", c.Spared)
	}
}

// Victims end in any order. What one leaves goes to the demand for which it ended. No other victim is spared because of
// that, and no further task is asked back.
func TestVictimsEndInAnyOrder(t *testing.T) {
	c := cluster(t)
	c.Role(allocator.Role{Role: "high", Priority: 10, Limit: c.R("cpus:2")})
	c.Framework("l", "low")
	one := c.R("cpus:1;mem:512")
	for _, agent := range []api.AgentID{"a", "b"} {
		c.Agent(agent, "cpus:2;mem:1024")
		c.Allocate()
		c.Accept(c.Offer("l", agent), 0, one, one)
	}
	c.Suppress("l")
	c.Framework("h", "high")
	c.Demand("h", "high", c.Shape("cpus:1;mem:512", 4))
	c.Expect()
	expect(t, victims(c), "a", "a")
	last, first := c.Inverse[0].Victims[0], c.Inverse[1].Victims[0]
	c.Finish(first)
	c.Expect("h a cpus:1;mem:512")
	c.Accept(c.Offer("h", "a"), 0, one)
	c.Expect()
	if expect(t, victims(c), "a", "a"); len(c.Spared) > 0 {
		t.Fatalf("spared %v", c.Spared)
	}
	c.Finish(last)
	c.Expect("h a cpus:1;mem:512")
}
