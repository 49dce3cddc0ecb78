package core

import (
	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// recoverRoles tells the policy what operators have said.
func (c *Core) recoverRoles() {
	for _, role := range sortedKeys(c.registry.Roles) {
		c.roleChanged(role)
	}
}

// roleChanged follows the registry.
func (c *Core) roleChanged(role api.Role) {
	set := c.registry.Roles[role]
	c.policy.SetRole(allocator.Role{Role: role, Weight: set.Weight, Priority: set.Priority, Guarantee: set.Guarantee, Limit: set.Limit})
	c.holdLimit(role)
}
