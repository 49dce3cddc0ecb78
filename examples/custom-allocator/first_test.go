package main

import (
	"testing"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/allocatortest"
)

func cluster(t *testing.T) *allocatortest.Cluster {
	policy, err := newFirst(allocator.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return allocatortest.NewCluster(t, policy) // fails the test when a rule of all allocators is broken
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
