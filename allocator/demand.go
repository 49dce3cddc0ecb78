package allocator

import "github.com/tenderhq/tender/api"

// DemandGrows reports whether a demand wants more than what was left of the one before. That is so if no demand was
// stated before, if a shape is new, if the count of a shape is higher, or if more of a shape is wanted on other agents
// than the preferred ones. A demand that grows ends the framework's filters in the role. nil = no demand is stated.
func DemandGrows(before, now []api.Shape) bool {
	if before == nil || now == nil {
		return (before == nil) != (now == nil)
	}
	more := make(map[wish]int64)
	count := func(shapes []api.Shape, sign int64) {
		for _, s := range shapes {
			one := wish{resources: s.Resources.String(), constraint: s.Constraint, group: s.Group}
			more[one] += sign * s.Count
			if one.anywhere = true; !s.OnlyPreferred {
				more[one] += sign * s.Count
			}
		}
	}
	count(now, +1)
	count(before, -1)
	// order: irrelevant because one is enough
	for _, n := range more {
		if n > 0 {
			return true
		}
	}
	return false
}

// wish is what two shapes are compared by when a demand is counted. A demand may contain the same wish several times,
// with different preferred agents.
type wish struct {
	resources, constraint, group string
	anywhere                     bool // it may also be met on agents that are not preferred
}
