package main

import (
	"os"
	"testing"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/allocatortest"
	"github.com/tenderhq/tender/allocator/engine"
	"github.com/tenderhq/tender/allocator/fairshare"
)

func fresh(t *testing.T) func() allocator.Allocator {
	return func() allocator.Allocator {
		policy, err := newFirst(allocator.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return policy
	}
}

func cluster(t *testing.T) *allocatortest.Cluster {
	return allocatortest.NewCluster(t, fresh(t)()) // fails the test when a rule of all allocators is broken
}

// TestSuite: what every allocator keeps to, this one does as well, but that equals take turns, and that who came
// first gives up what it keeps for others.
func TestSuite(t *testing.T) {
	allocatortest.Suite(t, fresh(t), allocatortest.EqualsTakeTurns, allocatortest.NoEqualStarves, allocatortest.NobodyStarves,
		allocatortest.KeptIsAskedBack)
}

// TestTheSuiteKnowsNoOrder: the suite asks nothing of the order in which a policy serves frameworks, so one that serves
// the last first passes as well.
func TestTheSuiteKnowsNoOrder(t *testing.T) {
	allocatortest.Suite(t, func() allocator.Allocator {
		return engine.New(allocator.Config{}, engine.Policy{
			Share: fairshare.DominantShare, Less: func(a, b engine.Standing) bool { return a.Joined > b.Joined },
		})
	}, allocatortest.EqualsTakeTurns, allocatortest.NoEqualStarves, allocatortest.NobodyStarves, allocatortest.KeptIsAskedBack)
}

// TestHistories is the suite's properties for a million steps.
func TestHistories(t *testing.T) {
	if os.Getenv("TENDER_TEST_LONG") == "" {
		t.Skip("TENDER_TEST_LONG plays a million steps")
	}
	allocatortest.Histories(t, fresh(t), 1_000_000)
}

// TestFirstComeFirstServed: the second is offered what the first does not want.
func TestFirstComeFirstServed(t *testing.T) {
	c := cluster(t)
	c.Framework("early", "e")
	c.Framework("late", "l/x")
	c.Demand("early", "e", c.Shape("cpus:1;mem:1024", 3))
	c.Demand("late", "l/x", c.Shape("cpus:1;mem:1024", 3))
	c.Agent("a1", "cpus:4;mem:4096")
	c.Expect("early a1 cpus:3;mem:3072", "late a1 cpus:1;mem:1024")
}

// TestOrderIsExplained: in the policy's own words.
func TestOrderIsExplained(t *testing.T) {
	c := cluster(t)
	c.Framework("early", "e")
	c.Framework("late", "l")
	c.Agent("a1", "cpus:4;mem:4096")
	c.Expect("early a1 cpus:4;mem:4096")
	c.Because("late", "a1", "its last offer went to early in role e: early was there before late")
}

// TestOperatorsAreHeard: a limit stands whenever the role appears.
func TestOperatorsAreHeard(t *testing.T) {
	c := cluster(t)
	c.Role(allocator.Role{Role: "e", Limit: c.R("cpus:1")})
	c.Framework("early", "e")
	c.Framework("late", "l")
	c.Demand("early", "e", c.Shape("cpus:1;mem:1024", 3))
	c.Demand("late", "l", c.Shape("cpus:1;mem:1024", 3))
	c.Agent("a1", "cpus:4;mem:4096")
	c.Expect("early a1 cpus:1;mem:1024", "late a1 cpus:3;mem:3072")
}
