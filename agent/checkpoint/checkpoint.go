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

// Store is an agent's disk. One goroutine uses it, but for Full and Bloated.
type Store interface {
	// Load gives back all records, oldest first, the Identity before all others. It is
	// called once, before anything else.
	Load() ([]core.Record, error)
	// Append writes records in order. When it returns, the death of this process can't
	// lose them; those about the agent itself and its volumes survive the machine.
	// An error means that none of them, or not all of them, may be there: the agent ends.
	Append(records []core.Record) error
	// Compact replaces everything by records that say the same.
	Compact(records []core.Record) error
	// Reset empties the store for a new life of the agent (R16).
	Reset() error
	// Bloated says that most of what is stored is garbage: Compact is worth its cost.
	Bloated() bool
	// Full says that the disk had no more room and the store lives on its reserve (R14).
	// It looks for room again each time it is asked.
	Full() bool
	// Close ends the use. Nothing is written by it.
	Close() error
}
