package core

import "github.com/tenderhq/tender/internal/value"

// Clone makes a core that goes on alike: told the same events it has the same effects. The two share nothing that
// changes.
func (c *Core) Clone() *Core { return value.Clone(c) }

// Dump shows people the whole state. Two cores that show alike go on alike.
func (c *Core) Dump() string { return value.Text(c) }
