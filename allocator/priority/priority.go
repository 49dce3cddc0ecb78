// Package priority is the policy of strict priority: what is free goes to the role with
// the highest priority that wants it; equals share by weighted dominant resource
// fairness, as in package fairshare. A role without a priority has its parent's.
//
// When stated demand can't be met from what is free, it asks the cheapest set of tasks of
// lower priority back: of the lowest priority, then the youngest, then the fewest. It
// never asks for demand that would not fit anyway, and nothing of equal priority.
package priority

import (
	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/engine"
)

// Name is what it is registered as.
const Name = "priority"

func init() { allocator.Register(Name, New) }

// New makes the policy.
func New(config allocator.Config) (allocator.Allocator, error) {
	return engine.New(config, engine.Options{Ranked: true, Preempts: true}), nil
}
