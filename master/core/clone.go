package core

import (
	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/internal/value"
)

// Clone is a core that stands where this one stands and shares nothing with it: told the same, both have the same
// effects. The policy is the clone's own, and must have been told what this core's was.
func (c *Core) Clone(policy allocator.Allocator) *Core {
	var clone *Core
	c.asData(func() { clone = value.Clone(c) })
	clone.policy, clone.config.Compile = policy, c.config.Compile
	return clone
}

// Dump is all that the core holds, for people. Its policy has books of its own, which are not shown.
func (c *Core) Dump() string {
	var text string
	c.asData(func() { text = value.Text(c) })
	return text
}

// asData calls do while the core is without the two things that it holds and that are no data of its own: the policy
// and the compiler of constraints.
func (c *Core) asData(do func()) {
	policy, compile := c.policy, c.config.Compile
	c.policy, c.config.Compile = nil, nil
	do()
	c.policy, c.config.Compile = policy, compile
}
