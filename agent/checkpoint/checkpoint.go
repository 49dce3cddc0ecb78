// Package checkpoint keeps an agent's records: what it was told to run, what became of
// it, and what its leader has yet to acknowledge. A store gives back, in order, every
// record whose Append had returned before the agent's process was killed; it never
// gives back a record that nobody wrote. It knows nothing of what records mean.
//
// DESIGN.md tells what is written when, and what happens at each crash point.
package checkpoint

import (
	"github.com/tenderhq/tender/agent/core"
)

// Store is an agent's disk. Only one goroutine uses it; Bloated alone may be called from others.
type Store interface {
	// Load gives back all records, oldest first, the Identity before all others. It is
	// called once, before anything else.
	Load() ([]core.Record, error)
	// Append writes records in order. When it returns, the death of this process can't lose them; those about the agent
	// itself and its volumes survive a crash of the machine. written is how many were stored, also when there is an
	// error. ErrNoRoom means that the others were not stored and may be appended again when there is room. Any other
	// error means that the agent has to end.
	Append(records []core.Record) (written int, err error)
	// Compact replaces everything by records that make the same state. After ErrNoRoom everything is as it was.
	Compact(records []core.Record) error
	// Reset empties the store for a new life of the agent (R16).
	Reset() error
	// Bloated says that most of what is stored is superseded, so that Compact is worth its cost.
	Bloated() bool
	// Full says that the disk has no more room and the store uses its reserve (R14). Each call checks for room again.
	Full() bool
	// Close ends the use of the store. It writes nothing.
	Close() error
}
