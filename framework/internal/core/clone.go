package core

import "github.com/tenderhq/tender/internal/value"

// Clone returns a core that behaves alike: the same events give the same effects. The two share nothing that changes.
func (c *Core) Clone() *Core { return value.Clone(c) }

// Dump describes the whole state for people. Two cores with the same description behave alike.
func (c *Core) Dump() string { return value.Text(c) }
