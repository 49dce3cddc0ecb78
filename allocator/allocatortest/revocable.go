package allocatortest

import (
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// taker subscribes a framework that takes revocable resources.
func taker(c *Cluster, id api.FrameworkID, role api.Role) {
	c.SetFramework(allocator.Framework{Framework: api.Framework{ID: id, Name: string(id), Roles: []api.Role{role}, Revocable: true}, Active: true})
}

func revocableOffered(c *Cluster) {
	c.Framework("f1", "r")
	c.Agent("a1", "cpus:4;mem:4096")
	c.Expect("f1 a1 cpus:4;mem:4096")
	c.Accept(c.Offer("f1", "a1"), 0, c.R("cpus:4;mem:4096"))
	c.Agent("a1", "cpus:4;mem:4096;cpus(revocable):2;mem(revocable):512")
	c.Expect()
	c.Because("f1", "a1", "cpus(revocable):2;mem(revocable):512 is free for frameworks that take revocable resources, which f1 does not")
	taker(c, "f2", "r")
	c.Expect("f2 a1 cpus(revocable):2;mem(revocable):512")
	c.Accept(c.Offer("f2", "a1"), 0, c.R("cpus(revocable):2;mem(revocable):512"))
	c.Agent("a1", "cpus:4;mem:4096")
	c.Expect()
	c.Because("f2", "a1", "they leave nothing unused that could be offered as revocable")
}

func revocableShares(c *Cluster) {
	c.Agent("a1", "cpus:8;mem:8192;cpus(revocable):8;mem(revocable):8192")
	taker(c, "f1", "r1")
	c.Allocate()
	c.Accept(c.Offer("f1", "a1"), time.Hour, c.R("cpus(revocable):8;mem(revocable):8192"))
	if share := c.Policy.Shares().Frameworks["f1"]; share != 0 {
		c.Fatalf("f1 holds nothing but revocable resources; its share is %v", share)
	}
}

// revocableIsFree: a framework that holds revocable resources gets no less of the firm ones.
func revocableIsFree(c *Cluster) {
	revocableShares(c)
	c.Revive("f1")
	c.Framework("f2", "r2")
	c.Demand("f2", "r2", c.Shape("cpus:1;mem:1024", 8))
	c.Demand("f1", "r1", c.Shape("cpus:1;mem:1024", 8))
	c.Allocate()
	if share := c.Policy.Shares().Frameworks; share["f1"] != share["f2"] {
		c.Fatalf("what f1 has revocable costs it firm resources: shares %v", share)
	}
}

func revocableQuota(c *Cluster) {
	c.Role(allocator.Role{Role: "r1", Limit: c.R("cpus:1;mem:1024")})
	c.Role(allocator.Role{Role: "r2", Guarantee: c.R("cpus:4;mem:4096")})
	c.Agent("a1", "cpus:4;mem:4096;cpus(revocable):4;mem(revocable):4096")
	taker(c, "f1", "r1")
	c.Expect("f1 a1 cpus(revocable):4;mem(revocable):4096")
	c.Framework("f2", "r2")
	c.Expect("f2 a1 cpus:4;mem:4096")
}

func revocableDemand(c *Cluster) {
	c.Framework("f1", "r")
	c.Demand("f1", "r", c.Shape("cpus(revocable):1;mem(revocable):512", 2))
	c.Agent("a1", "cpus:4;mem:4096;cpus(revocable):3;mem(revocable):2048")
	c.Expect()
	c.Because("f1", "a1", "it has not said that it takes revocable resources")
	taker(c, "f1", "r")
	c.Expect("f1 a1 cpus(revocable):2;mem(revocable):1024")
	c.Accept(c.Offer("f1", "a1"), 0, c.R("cpus(revocable):1;mem(revocable):512"))
	c.Expect("f1 a1 cpus(revocable):1;mem(revocable):512") // the second task is still wanted
	c.Accept(c.Offer("f1", "a1"), 0, c.R("cpus(revocable):1;mem(revocable):512"))
	c.Expect()
	c.Demand("f1", "r", c.Shape("cpus(revocable):2;mem(revocable):512", 1))
	c.Expect()
	c.Because("f1", "a1", "f1 wants cpus(revocable):2;mem(revocable):512")
}

func revocableShrinks(c *Cluster) {
	taker(c, "f1", "r")
	c.Agent("a1", "cpus:2;mem:1024;cpus(revocable):4;mem(revocable):1024")
	c.Allocate()
	tasks := c.Accept(c.Offer("f1", "a1"), 0, c.R("cpus(revocable):3;mem(revocable):512"), c.R("cpus:1;mem:512"))
	c.Agent("a1", "cpus:2;mem:1024;cpus(revocable):1;mem(revocable):1024")
	c.Expect("f1 a1 cpus:1;mem:512;mem(revocable):512")
	c.Decline(c.Offer("f1", "a1"), time.Hour)
	c.Finish(tasks[0])
	c.Expect("f1 a1 cpus:1;cpus(revocable):1;mem:512;mem(revocable):1024")
}
