package priority_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/allocatortest"
	"github.com/tenderhq/tender/api"
)

func cluster(t *testing.T) *allocatortest.Cluster {
	c := allocatortest.NewCluster(t, fresh(t)())
	c.Role(allocator.Role{Role: "high", Priority: 10})
	c.Role(allocator.Role{Role: "low", Priority: 1})
	return c
}

// fill adds n agents with one cpu each, and lets the framework run one task on each of them, a second apart.
func fill(c *allocatortest.Cluster, id api.FrameworkID, n int) {
	for i := range n {
		agent := api.AgentID(fmt.Sprintf("%s-%d", id, i))
		c.Agent(agent, "cpus:1;mem:512")
		c.Allocate()
		c.Accept(c.Offer(id, agent), 0, c.R("cpus:1;mem:512"))
		c.Sleep(time.Second)
	}
}

func victims(c *allocatortest.Cluster) []string {
	var words []string
	for _, inverse := range c.Inverse {
		for _, v := range inverse.Victims {
			words = append(words, string(v.Agent))
		}
	}
	return words
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func TestStrictOrder(t *testing.T) {
	c := cluster(t)
	c.Role(allocator.Role{Role: "tree/urgent", Priority: 5})
	c.Framework("l", "low")
	c.Framework("none", "unset")
	c.Framework("u", "tree/urgent")
	c.Framework("below", "high/below")
	for i := range 3 {
		c.Agent(api.AgentID(fmt.Sprintf("a%d", i)), "cpus:1;mem:512")
	}
	c.Expect("below a0 cpus:1;mem:512", "below a1 cpus:1;mem:512", "below a2 cpus:1;mem:512")
	c.Because("l", "a0", "its last offer went to below in role high/below: priority 10 against 1")
	for _, o := range append([]allocator.Claim(nil), c.Offers...) {
		c.Decline(o, time.Hour)
	}
	c.Expect("u a0 cpus:1;mem:512", "u a1 cpus:1;mem:512", "u a2 cpus:1;mem:512")
	c.Suppress("u")
	for _, o := range append([]allocator.Claim(nil), c.Offers...) {
		c.Decline(o, time.Hour)
	}
	c.Expect("l a0 cpus:1;mem:512", "l a1 cpus:1;mem:512", "l a2 cpus:1;mem:512")
}

func TestEqualsShare(t *testing.T) {
	c := cluster(t)
	c.Role(allocator.Role{Role: "x", Priority: 3})
	c.Role(allocator.Role{Role: "y", Priority: 3, Weight: 2})
	c.Framework("x", "x")
	c.Framework("y", "y")
	for i := range 6 {
		c.Agent(api.AgentID(fmt.Sprintf("a%d", i)), "cpus:1;mem:512")
	}
	c.Allocate()
	if got := c.Used("y", "cpus"); got != 4000 {
		t.Fatalf("y has twice the weight: got %d", got)
	}
}

// The youngest task of the lowest priority is asked back, and no more than is needed. What it leaves goes to the demand
// for which it was asked back, before anybody else gets any of it.
func TestPreempts(t *testing.T) {
	c := cluster(t)
	c.Role(allocator.Role{Role: "lower", Priority: -1})
	c.Framework("l", "low")
	fill(c, "l", 2)
	c.Suppress("l")
	c.Framework("m", "lower")
	fill(c, "m", 3)
	c.Framework("h", "high")
	c.Demand("h", "high", c.Shape("cpus:1;mem:256", 1))
	c.Expect()
	expect(t, victims(c), "m-2")
	c.Expect()
	expect(t, victims(c), "m-2") // it is asked back only once
	c.Revive("l")
	c.Finish(c.Tasks[4])
	c.Expect("h m-2 cpus:1;mem:256", "l m-2 mem:256")
	c.Accept(c.Offer("h", "m-2"), 0, c.R("cpus:1;mem:256"))
	c.Expect()
	expect(t, victims(c), "m-2") // the demand is met, so nothing more is asked back
}

func TestPreemptsFewest(t *testing.T) {
	c := cluster(t)
	c.Framework("l", "low")
	c.Agent("a", "cpus:4;mem:4096")
	c.Allocate()
	c.Accept(c.Offer("l", "a"), 0, c.R("cpus:3;mem:1024"))
	c.Sleep(time.Second)
	c.Allocate()
	c.Accept(c.Offer("l", "a"), time.Hour, c.R("cpus:0.5;mem:1024"), c.R("cpus:0.5;mem:1024"))
	c.Framework("h", "high")
	c.Demand("h", "high", c.Shape("cpus:3;mem:512", 1))
	c.Allocate()
	if len(c.Inverse) != 1 || len(c.Inverse[0].Victims) != 1 || !c.Inverse[0].Victims[0].Resources.Equal(c.R("cpus:3;mem:1024")) {
		t.Fatalf("the two small ones would not help: %v", c.Inverse)
	}
}

func TestPreemptsNothingInVain(t *testing.T) {
	c := cluster(t)
	c.Framework("l", "low")
	fill(c, "l", 3)
	c.Framework("h", "high")
	for _, shape := range []api.Shape{
		c.Shape("cpus:2;mem:256", 1),
		c.Shape("gpus:1", 1),
		{Resources: c.R("cpus:1"), Count: 1, Constraint: `zone == "moon"`},
		{Resources: c.R("cpus:1"), Count: 1, OnlyPreferred: true, Preferred: []api.AgentID{"elsewhere"}},
	} {
		c.Demand("h", "high", shape)
		c.Expect()
	}
	c.Role(allocator.Role{Role: "high", Priority: 10, Limit: c.R("cpus:0.5")})
	c.Demand("h", "high", c.Shape("cpus:1;mem:256", 1))
	c.Expect()
	c.Role(allocator.Role{Role: "high", Priority: 1}) // an equal preempts nobody
	c.Expect()
	c.Role(allocator.Role{Role: "high", Priority: 10})
	c.Hold(true) // R20
	c.Expect()
	expect(t, victims(c))
	c.Hold(false)
	c.Expect()
	expect(t, victims(c), "l-2")
}

// Nothing that is guaranteed is asked back.
func TestPreemptsNoGuarantee(t *testing.T) {
	c := cluster(t)
	c.Framework("l", "low")
	fill(c, "l", 3)
	c.Role(allocator.Role{Role: "low", Priority: 1, Guarantee: c.R("cpus:2")})
	c.Framework("h", "high")
	c.Demand("h", "high", c.Shape("cpus:1;mem:256", 3))
	c.Expect()
	expect(t, victims(c), "l-2")
}

// A demand that declines what was preempted for it preempts no more for a growing time.
func TestPreemptsNoMoreForAWhile(t *testing.T) {
	c := cluster(t)
	c.Framework("l", "low")
	fill(c, "l", 4)
	c.Suppress("l")
	c.Framework("h", "high")
	c.Demand("h", "high", c.Shape("cpus:1;mem:512", 1))
	for round, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		c.Expect()
		if len(c.Inverse) != round+1 {
			t.Fatalf("round %d: %d inverse offers", round, len(c.Inverse))
		}
		victim := c.Inverse[round].Victims[0]
		c.Finish(victim)
		c.Allocate()
		c.Decline(c.Offer("h", victim.Agent), time.Hour)
		c.Expect()
		if want := c.Now.Add(pause); !c.Policy.Wake().Equal(want) {
			t.Fatalf("round %d: wakes at %v, want %v", round, c.Policy.Wake(), want)
		}
		c.Sleep(pause - 1)
		c.Expect()
		if len(c.Inverse) != round+1 {
			t.Fatalf("round %d: preempted again at once", round)
		}
		c.Sleep(1)
	}
}

// What is kept for a demand is given to others when the demand is gone.
func TestKeepsNoLongerThanWanted(t *testing.T) {
	c := cluster(t)
	c.Framework("l", "low")
	fill(c, "l", 1)
	c.Framework("h", "high")
	c.Demand("h", "high", c.Shape("cpus:1;mem:512", 1))
	c.Expect()
	victim := c.Inverse[0].Victims[0]
	c.Demand("h", "high")
	c.Finish(victim)
	c.Expect("l l-0 cpus:1;mem:512")
}

// Preemption comes to an end: whatever the preempted framework asks for, it does not preempt back.
func TestNoPingPong(t *testing.T) {
	c := cluster(t)
	c.Framework("l", "low")
	c.Framework("h", "high")
	shape := "cpus:1;mem:512"
	c.Demand("h", "high")
	c.Demand("l", "low", c.Shape(shape, 3))
	for i := range 3 {
		c.Agent(api.AgentID(fmt.Sprintf("a%d", i)), shape)
	}
	serve := func() {
		for {
			offers := c.Allocate()
			for _, o := range offers {
				c.Accept(o, 0, c.R(shape))
			}
			if len(offers) == 0 {
				return
			}
		}
	}
	serve()
	c.Demand("h", "high", c.Shape(shape, 2))
	asked := 0
	for range 20 {
		serve()
		for ; asked < len(c.Inverse); asked++ {
			for _, v := range c.Inverse[asked].Victims {
				c.Finish(v)
			}
		}
		c.Demand("l", "low", c.Shape(shape, 3))
		c.Sleep(time.Minute)
	}
	if len(c.Inverse) != 2 || c.Used("high", "cpus") != 2000 || c.Used("low", "cpus") != 1000 {
		t.Fatalf("%d inverse offers, high has %d, low %d", len(c.Inverse), c.Used("high", "cpus"), c.Used("low", "cpus"))
	}
}

// If a limit is in the way that both frameworks are under, the victims are chosen from the tasks under that limit.
func TestPreemptsUnderALimit(t *testing.T) {
	c := cluster(t)
	c.Role(allocator.Role{Role: "eng", Limit: c.R("cpus:2")})
	c.Role(allocator.Role{Role: "eng/prod", Priority: 10})
	c.Role(allocator.Role{Role: "eng/batch", Priority: 1})
	c.Framework("l", "low")
	fill(c, "l", 1)
	c.Suppress("l")
	c.Framework("batch", "eng/batch")
	fill(c, "batch", 2)
	c.Framework("prod", "eng/prod")
	c.Demand("prod", "eng/prod", c.Shape("cpus:1;mem:128", 2))
	c.Expect()
	expect(t, victims(c), "batch-1", "batch-0")
	c.Finish(c.Inverse[0].Victims[0])
	c.Expect("prod batch-1 cpus:1;mem:128")
}

// On one large agent, room for several tasks is asked back in one round.
func TestPreemptsSeveralOnOneAgent(t *testing.T) {
	c := cluster(t)
	c.Framework("l", "low")
	c.Agent("a", "cpus:4;mem:4096")
	c.Allocate()
	small := c.R("cpus:1;mem:1024")
	c.Accept(c.Offer("l", "a"), 0, small, small, small, small)
	c.Framework("h", "high")
	c.Demand("h", "high", c.Shape("cpus:1;mem:1024", 3))
	c.Expect()
	if len(c.Inverse) != 3 {
		t.Fatalf("three are wanted: %v", c.Inverse)
	}
	for _, inverse := range c.Inverse {
		c.Finish(inverse.Victims[0])
	}
	c.Expect("h a cpus:3;mem:3072")
}

// A framework has an offer of an agent, and is offered beside it what was preempted there. It has seen both, so what it
// gives back of them is not offered to it again at once.
func TestGivesBackOneOfTwo(t *testing.T) {
	c := cluster(t)
	c.Framework("l", "low")
	c.Agent("a", "cpus:4;mem:4096")
	c.Demand("l", "low", c.Shape("cpus:1;mem:64", 1))
	c.Expect("l a cpus:1;mem:64")
	task := c.Accept(c.Offer("l", "a"), 0, c.R("cpus:1;mem:64"))
	c.Framework("h", "high")
	c.Demand("h", "high", c.Shape("cpus:2;mem:64", 2))
	c.Expect("h a cpus:2;mem:64")
	c.Expect()
	expect(t, victims(c), "a")
	c.Finish(task[0])
	c.Expect("h a cpus:2;mem:64")
	c.Decline(c.Offer("h", "a"), 0)
	c.Expect()
	c.Sleep(allocator.DefaultOfferAgain)
	c.Expect("h a cpus:2;mem:64")
}
