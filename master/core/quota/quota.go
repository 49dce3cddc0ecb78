// Package quota checks the guarantees and limits that operators set for roles: against the tree of roles, and against
// what the agents have. It counts in one way for all callers. Limits are enforced elsewhere. (Protocol rule R29.)
package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/registry"
)

// CheckNested says why a role's new guarantee or limit would not fit in the tree of roles. The guarantees below a role
// must fit in its own guarantee, where it has one, and in its limit. Only the role and those above it are checked,
// because nothing else changes.
func CheckNested(roles map[api.Role]registry.Role, changed api.Role, set registry.Role) error {
	roles = maps.Clone(roles)
	if roles == nil {
		roles = make(map[api.Role]registry.Role)
	}
	roles[changed] = set
	for role := changed; role != ""; role = role.Parent() {
		below := guaranteedBelow(roles, role)
		if own := roles[role].Guarantee; !own.Contains(Named(own, below)) {
			return fmt.Errorf("guarantee %v of role %s is less than what is guaranteed below it, %v in all; raise the one or lower the others",
				own, role, Named(own, below))
		}
		if limit := roles[role].Limit; !limit.Contains(Named(limit, below)) {
			return fmt.Errorf("limit %v of role %s is less than what is guaranteed below it, %v in all; raise the one or lower the others",
				limit, role, Named(limit, below))
		}
	}
	return nil
}

// CheckLimit says why a role's new limit could never be reached: a role above it has a lower one, which caps this role
// too.
func CheckLimit(roles map[api.Role]registry.Role, changed api.Role, limit api.Resources) error {
	for role := changed.Parent(); role != ""; role = role.Parent() {
		if above := roles[role].Limit; !above.Contains(Named(above, limit)) {
			return fmt.Errorf("limit %v is above that of role %s, %v, which caps this role too; set a lower limit, or raise that one first", limit, role, above)
		}
	}
	return nil
}

// CheckCapped says which role below has a limit that it could not reach any more, because the new one of the role above
// it is lower.
func CheckCapped(roles map[api.Role]registry.Role, changed api.Role, limit api.Resources) error {
	for _, role := range slices.Sorted(maps.Keys(roles)) {
		if below := roles[role].Limit; role != changed && role.Within(changed) && !limit.Contains(Named(limit, below)) {
			return fmt.Errorf("limit %v is below that of role %s, %v, which it would cap too; lower that one first, or say --force to cap it", limit, role, below)
		}
	}
	return nil
}

// least is the smallest amount that is no zero.
const least = api.Milli(1)

// ParseLimit reads a limit in the notation of the flags. A limit of zero freezes the role in that kind. It is kept as the
// smallest amount, which is less than any offer, because resources hold nothing of amount zero.
func ParseLimit(text string) (api.Resources, error) {
	limit, err := api.ParseResources(text)
	if err != nil {
		return limit, err
	}
	frozen := limit.Items()
	for part := range strings.SplitSeq(text, ";") {
		name, _, amount := strings.Cut(strings.TrimSpace(part), ":")
		if label := (api.Label{Name: strings.TrimSpace(name)}); amount {
			if _, has := limit.Find(label); !has {
				frozen = append(slices.Clone(frozen), api.Resource{Label: label, Scalar: least})
			}
		}
	}
	return api.NewResources(frozen...), nil
}

// CheckCapacity says why a role's new guarantee could not be met now: more would be guaranteed than all agents have
// together, including those that are away. A guarantee that can't be met would still be held back from all others.
// Kinds of which the role is guaranteed no more than before are not checked, so a guarantee may always be lowered.
func CheckCapacity(state *registry.State, changed api.Role, set registry.Role) error {
	roles := maps.Clone(state.Roles)
	if roles == nil {
		roles = make(map[api.Role]registry.Role)
	}
	before := roles[changed].Guarantee
	roles[changed] = set
	all := guaranteedBelow(roles, "")
	for _, item := range set.Guarantee.Items() {
		was, _ := before.Find(item.Label)
		sum, _ := all.Find(item.Label)
		if Amount(item) <= Amount(was) {
			continue
		}
		if missing := portsMissing(state, item); missing.Len() > 0 {
			return fmt.Errorf("no agent has %s:%s; guarantee others, or say --force when agents with them are to come", item.Name, missing)
		}
		if have := capacity(state, item.Name); Amount(sum) > have {
			return fmt.Errorf("with it %s:%s would be guaranteed in all, and the %d agents have %s:%s together; guarantee less, or say --force when more agents are to come",
				item.Name, Amount(sum), len(state.Agents), item.Name, have)
		}
	}
	return nil
}

// portsMissing returns which of the item's ranges, such as ports, no agent has.
func portsMissing(state *registry.State, item api.Resource) api.Ranges {
	var has api.Ranges
	if item.Ranges.Len() == 0 {
		return has
	}
	for _, a := range state.Agents { // order: irrelevant because it is a union
		if !a.Marks.Has(api.MarkGone) {
			has = has.Union(a.Agent.Resources.RangesOf(item.Name))
		}
	}
	return item.Ranges.Minus(has)
}

// capacity returns what the agents of the registry have of a kind, reserved or not. Agents that are gone don't count.
func capacity(state *registry.State, name string) api.Milli {
	var sum api.Milli
	for _, a := range state.Agents { // order: irrelevant because it is a sum
		if a.Marks.Has(api.MarkGone) {
			continue
		}
		for _, item := range a.Agent.Resources.Items() {
			if item.Name == name {
				sum += Amount(item)
			}
		}
	}
	return sum
}

// Amount returns how much of its kind an item is. Each port of a range and each word of a set counts as one.
func Amount(item api.Resource) api.Milli {
	if item.Scalar != 0 {
		return item.Scalar
	}
	return 1000 * api.Milli(min(item.Ranges.Len(), uint64(api.MilliMax)/1000)+uint64(len(item.Set)))
}

// guaranteedBelow adds up, for each kind, the guarantees that stand nearest below a role. A guarantee further down is a
// part of the one above it, so it is not counted again.
func guaranteedBelow(roles map[api.Role]registry.Role, above api.Role) api.Resources {
	var sum api.Resources
	for _, role := range slices.Sorted(maps.Keys(roles)) {
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

// Named returns the part of the resources whose kinds occur in names.
func Named(names, resources api.Resources) api.Resources {
	return resources.Filter(func(l api.Label) bool { _, named := names.Find(l); return named })
}

// Counting returns the part of the resources that counts towards the role's limit beside what is reserved for the role.
func Counting(resources api.Resources, role api.Role) []api.Resource {
	return slices.DeleteFunc(slices.Clone(resources.Items()), func(item api.Resource) bool {
		return item.Revocable || item.Reserved != "" && item.Reserved.Within(role)
	})
}
