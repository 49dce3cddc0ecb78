package core

import (
	"fmt"
	"slices"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/core/quota"
)

// limits holds roles to their limits where the policy alone can't: when a limit becomes lower, and for accepts that had
// to wait for the registry.
type limits struct {
	*base
	offers *offers
}

// holdLimit takes offers back, the youngest first, that are above a limit which has just become lower. Who has an
// offer is told that it is gone, so no accept takes the role further above; tasks that are above it run on. (Protocol
// rule R29.)
func (r *limits) holdLimit(role api.Role) {
	limit := r.registry.Roles[role].Limit
	if limit.IsZero() || len(r.offers.open) == 0 {
		return
	}
	over := r.aboveLimit(role, api.Resources{})
	out := make(map[api.OfferID]*offer)
	for _, o := range slices.Backward(sortedOffers(r.offers.open)) {
		if len(over) == 0 {
			break
		}
		if !o.role.Within(role) || !holdsOf(o.resources, over, role) {
			continue
		}
		out[o.id] = o
		for _, item := range quota.Counting(o.resources, role) {
			if over[item.Name] -= quota.Amount(item); over[item.Name] <= 0 {
				delete(over, item.Name)
			}
		}
	}
	r.offers.rescindAll(out, fmt.Sprintf("the limit of role %s is %v now", role, limit))
}

// limitAbove names the limit, of the role or one above it, that what is used and offered in it with these resources
// passes; "" when there is none.
func (r *limits) limitAbove(role api.Role, more api.Resources) string {
	words := ""
	for up := role; up != ""; up = up.Parent() {
		if limit := r.registry.Roles[up].Limit; words == "" && !limit.IsZero() && len(r.aboveLimit(up, more)) > 0 {
			words = fmt.Sprintf("the limit of role %s is %v now", up, limit)
		}
	}
	return words
}

// aboveLimit is by how much what the role and those below it use, are offered and have reserved, with these resources,
// is above its limit; empty when it is not.
func (r *limits) aboveLimit(role api.Role, more api.Resources) map[string]api.Milli {
	sums := make(map[string]api.Milli)
	count := func(resources api.Resources) {
		for _, item := range quota.Counting(resources, role) {
			sums[item.Name] += quota.Amount(item)
		}
	}
	count(more)
	for _, fw := range r.frameworkByID { // order: irrelevant because it sums
		for _, t := range fw.tasks { // order: irrelevant because it sums
			if t.held && t.role.Within(role) {
				count(t.resources)
			}
		}
		for _, x := range fw.executors { // order: irrelevant because it sums
			if x.role.Within(role) {
				count(x.resources)
			}
		}
	}
	for _, o := range r.offers.open { // order: irrelevant because it sums
		if o.role.Within(role) {
			count(o.resources)
		}
	}
	for _, a := range r.agentByID { // order: irrelevant because it sums
		for _, item := range a.Total.Items() {
			if item.Reserved != "" && item.Reserved.Within(role) {
				sums[item.Name] += quota.Amount(item)
			}
		}
	}
	over := make(map[string]api.Milli)
	for _, item := range r.registry.Roles[role].Limit.Items() {
		if n := sums[item.Name] - quota.Amount(item); n > 0 {
			over[item.Name] = n
		}
	}
	return over
}

func holdsOf(resources api.Resources, kinds map[string]api.Milli, role api.Role) bool {
	return slices.ContainsFunc(quota.Counting(resources, role), func(item api.Resource) bool { return kinds[item.Name] > 0 })
}

// recoverRoles tells the policy what operators have said.
func (r *limits) recoverRoles() {
	for _, role := range sortedKeys(r.registry.Roles) {
		r.roleChanged(role)
	}
}

// roleChanged follows the registry.
func (r *limits) roleChanged(role api.Role) {
	set := r.registry.Roles[role]
	r.policy.SetRole(allocator.Role{Role: role, Weight: set.Weight, Priority: set.Priority, Guarantee: set.Guarantee, Limit: set.Limit})
	r.holdLimit(role)
}
