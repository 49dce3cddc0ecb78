// Package life is the table of an agent's phases, as the leader knows them: which phase may follow which. It knows no
// agent, and no time.
package life

import "slices"

// Phase is where an agent stands in its life, as the leader knows it. Lists show more than the phase: an agent that is
// Up may be shown as BUSY, or as unable to start anything.
type Phase uint8

const (
	// Away means that the agent has no stream, and may come back at any moment.
	Away Phase = iota
	// Reporting means that the agent has a stream, and has not finished its report yet.
	Reporting
	// Initing means that the agent is new and has nothing to report; its first heartbeat has not arrived yet.
	Initing
	// Up means that the agent has reported and is heard from. It does what it is told.
	Up
	// Tombstone means that the agent is taken for dead, or was marked gone. The allocator does not know it.
	Tombstone
	// Overdue means that the agent has been a TOMBSTONE for so long that it waits to be marked gone.
	Overdue
	// Returning means that an agent that was a TOMBSTONE has a stream again. It counts as dead until its report is complete.
	Returning
)

var names = [...]string{"away", "reporting", "initing", "up", "tombstone", "overdue", "returning"}

func (p Phase) String() string { return names[p] }

// moves lists the legal moves. Before a new stream replaces an old one, the end of the old one is a move of its own.
var moves = [...][]Phase{
	Away:      {Reporting, Tombstone},
	Reporting: {Away, Initing, Up},
	Initing:   {Away, Up},
	Up:        {Away},
	Tombstone: {Overdue, Returning},
	Overdue:   {Tombstone, Returning},
	Returning: {Tombstone, Reporting},
}

// May reports whether an agent in this phase may move to the next one. Staying in the same phase is always legal.
func (p Phase) May(next Phase) bool { return next == p || slices.Contains(moves[p], next) }

// Opened returns the phase to which a new session leads.
func (p Phase) Opened() Phase {
	if p.Dead() {
		return Returning
	}
	return Reporting
}

// Closed returns the phase to which the end of a session leads. An agent that was taken for dead and has not reported
// since still counts as dead.
func (p Phase) Closed() Phase {
	if p.Dead() {
		return Tombstone
	}
	return Away
}

// Dead reports whether the agent is taken for dead: its tasks have been given up, and the allocator does not know it.
func (p Phase) Dead() bool { return p == Tombstone || p == Overdue || p == Returning }

// Reported reports whether the agent's report of this session is complete.
func (p Phase) Reported() bool { return p == Initing || p == Up }

// Alive reports whether the agent is RUNNING or BUSY: it does what it is told.
func (p Phase) Alive() bool { return p == Up }

// Account is how much an agent has reported in this term, over all its sessions. It only grows.
type Account uint8

const (
	// AccountNone means that it has reported nothing yet. The agent may have tasks of earlier terms.
	AccountNone Account = iota
	// AccountGiven means that the agent has named its tasks of earlier terms.
	AccountGiven
	// AccountRebooted means that the agent has also said that it was rebooted, so what ran before is surely dead. (R8)
	AccountRebooted
)
