package core

import (
	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

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
