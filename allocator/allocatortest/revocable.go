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
