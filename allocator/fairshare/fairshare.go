// Package fairshare is the policy of weighted dominant resource fairness: what is free goes to the framework
// with the smallest dominant share, found down the tree of roles by share over weight, then among a role's
// frameworks.
//
// The source is Ghodsi and others, "Dominant Resource Fairness: Fair Allocation of Multiple Resource Types",
// NSDI'11. Its algorithm 1 fills progressively: it picks the user with the lowest dominant share, gives it one
// task's worth, counts that as held, and begins again, until nothing fits any more. Here as there; a user is a
// framework, or a role with all below it (each level of the tree is divided like a cluster of its own), and
// section 4.3 divides a share by its weight. Guarantees go first, limits cap. Nothing is ever taken back.
package fairshare

import (
	"fmt"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/engine"
)

// Name is the name under which the policy is registered.
const Name = "fairshare"

func init() { allocator.Register(Name, New) }

// New makes an allocator with this policy.
func New(config allocator.Config) (allocator.Allocator, error) {
	return engine.New(config, Policy()), nil
}

// Policy returns the policy for the engine.
func Policy() engine.Policy {
	return engine.Policy{Share: DominantShare, Next: WeightedShare, Because: Because}
}

// DominantShare returns the largest part that is held of any kind of resource in the cluster. Thus one that uses much
// memory and one that uses many cpus are compared by what each uses most of.
func DominantShare(held, total engine.Amounts) float64 {
	share := 0.0
	for kind, amount := range held {
		if of := total.At(kind); amount > 0 && of > 0 {
			share = max(share, float64(amount)/float64(of))
		}
	}
	return share
}

// WeightedShare decides who is next: the one with the smallest share for its weight. A role of weight 2 is equal to one
// of weight 1 when it has twice as much.
func WeightedShare(held, total engine.Amounts, weight float64) float64 {
	return DominantShare(held, total) / weight
}

// Because explains the order of two frameworks of one role, or of two roles, by their shares.
func Because(first, other engine.Standing) string {
	if first.Framework != "" {
		return fmt.Sprintf("share %.3g now, against %.3g of %s", first.Share, other.Share, other.Framework)
	}
	return fmt.Sprintf("weighted share %.3g now, against %.3g of role %s", first.Share/first.Weight, other.Share/other.Weight, other.Role)
}
