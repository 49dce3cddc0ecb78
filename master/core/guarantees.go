package core

import (
	"fmt"
	"maps"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/registry"
)

// checkNested says why a role's new guarantee or limit would not hold in the tree: what is
// guaranteed below a role fits in its own guarantee, where it has one, and in its limit.
// Only the role and those above it are judged, for nothing else changes.
func checkNested(roles map[api.Role]registry.Role, changed api.Role, set registry.Role) error {
	roles = maps.Clone(roles)
	if roles == nil {
		roles = make(map[api.Role]registry.Role)
	}
	roles[changed] = set
	for role := changed; role != ""; role = role.Parent() {
		below := guaranteedBelow(roles, role)
		if own := roles[role].Guarantee; !own.Contains(namedIn(own, below)) {
			return fmt.Errorf("guarantee %v of role %s is less than what is guaranteed below it, %v in all; raise the one or lower the others",
				own, role, namedIn(own, below))
		}
		if limit := roles[role].Limit; !limit.Contains(namedIn(limit, below)) {
			return fmt.Errorf("limit %v of role %s is less than what is guaranteed below it, %v in all; raise the one or lower the others",
				limit, role, namedIn(limit, below))
		}
	}
	return nil
}

// guaranteedBelow adds up, for each kind, the guarantees nearest below a role: one further
// down is part of the one above it.
func guaranteedBelow(roles map[api.Role]registry.Role, above api.Role) api.Resources {
	var sum api.Resources
	for _, role := range sortedKeys(roles) {
		if role == above || !role.Within(above) {
			continue
		}
		sum = sum.Plus(roles[role].Guarantee.Filter(func(l api.Label) bool {
			for up := role.Parent(); up != above; up = up.Parent() {
				if _, stated := roles[up].Guarantee.Find(l); stated {
					return false
				}
			}
			return true
		}))
	}
	return sum
}

// namedIn is the part of the resources whose kinds are named.
func namedIn(names, resources api.Resources) api.Resources {
	return resources.Filter(func(l api.Label) bool { _, named := names.Find(l); return named })
}
