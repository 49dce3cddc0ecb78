// Package priority is the policy of strict priority: free resources go to the role with the highest priority that wants
// them. Roles of equal priority share by weighted dominant resource fairness, as in package fairshare. A role without a
// priority has its parent's.
//
// When stated demand can't be met from what is free, it asks the cheapest set of tasks of lower priority back: of the
// lowest priority, then the youngest, then the fewest. It never asks for demand that would not fit anyway, and never
// for tasks of equal priority.
package priority

import (
	"cmp"
	"fmt"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/engine"
	"github.com/tenderhq/tender/allocator/fairshare"
	"github.com/tenderhq/tender/api"
)

// Name is the name under which the policy is registered.
const Name = "priority"

func init() { allocator.Register(Name, New) }

// New makes an allocator with this policy.
func New(config allocator.Config) (allocator.Allocator, error) {
	return engine.New(config, Policy()), nil
}

// Policy returns the policy for the engine. Among roles of equal priority it is that of package fairshare; it adds
// which role goes first, and which tasks give way.
func Policy() engine.Policy {
	policy := fairshare.Policy()
	policy.Rank = func(_ api.Role, priority int) int { return priority }
	policy.Yields = Yields
	policy.YieldsSooner = YieldsSooner
	policy.Because = Because
	return policy
}

// Yields reports whether the task has a lower priority than the framework that needs its place.
func Yields(t engine.Task, to engine.Standing) bool { return t.Priority < to.Priority }

// YieldsSooner puts tasks of lower priority first and, among equal priorities, the youngest: it has done the least
// work.
func YieldsSooner(a, b engine.Task) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), b.Since.Compare(a.Since))
}

// Because explains the order by the priorities where these decide.
func Because(first, other engine.Standing) string {
	if first.Priority != other.Priority {
		return fmt.Sprintf("priority %d against %d", first.Priority, other.Priority)
	}
	return fairshare.Because(first, other)
}
