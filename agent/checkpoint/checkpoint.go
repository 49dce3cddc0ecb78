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

// Store is an agent's disk. One goroutine uses it, but for Bloated.
type Store interface {
	// Load gives back all records, oldest first, the Identity before all others. It is
	// called once, before anything else.
	Load() ([]core.Record, error)
	// Append writes records in order. When it returns, the death of this process can't
	// lose them; those about the agent itself and its volumes survive the machine.
	// written is how many are there, in any case. ErrNoRoom means that the others are not,
	// and may be appended when there is room; any other error that the agent has to end.
	Append(records []core.Record) (written int, err error)
	// Compact replaces everything by records that say the same. After ErrNoRoom all is as
	// it was.
	Compact(records []core.Record) error
	// Reset empties the store for a new life of the agent (R16).
	Reset() error
	// Bloated says that most of what is stored is garbage: Compact is worth its cost.
	Bloated() bool
	// Full says that the disk has no more room and the store lives on what it has in reserve
	// (R14). It looks for room again each time it is asked.
	Full() bool
	// Close ends the use. Nothing is written by it.
	Close() error
}
