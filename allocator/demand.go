package allocator

import "github.com/tenderhq/tender/api"

// DemandGrows reports whether a demand wants more than what was left of the one before: it was
// none, a shape is new, or more are wanted of one, or more of it on other agents than preferred
// ones. That ends the filters of its framework in the role. nil = no demand is stated.
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

// wish is what is counted of a demand: the same shape may stand in it several times, with other
// preferred agents.
type wish struct {
	resources, constraint, group string
	anywhere                     bool // not only on preferred agents
}
