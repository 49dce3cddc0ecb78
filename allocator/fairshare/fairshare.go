// Package fairshare is the policy of weighted dominant resource fairness: what is free
// goes to the framework with the smallest dominant share, found down the tree of roles
// by share over weight, then among a role's frameworks.
//
// The dominant share is the largest part that somebody holds of any kind of resource in
// the cluster (Ghodsi and others, NSDI'11). Guarantees go first, limits cap. It never
// takes anything back.
package fairshare

import (
	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/engine"
)

// Name is what it is registered as.
const Name = "fairshare"

func init() { allocator.Register(Name, New) }

// New makes the policy.
func New(config allocator.Config) (allocator.Allocator, error) {
	return engine.New(config, engine.Options{}), nil
}
