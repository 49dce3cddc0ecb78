// Package life is the table of an agent's phases, as the leader knows them: which phase may follow which. It knows no
// agent, and no time.
package life

import "slices"

// Phase is where an agent stands in its life, as the leader knows it. What a list shows is more than that: an agent
// that is up may be BUSY, or unable to start anything.
type Phase uint8

const (
	// Away has no stream, and may come back any moment.
	Away Phase = iota
	// Reporting has a stream, and has not told yet what it has.
	Reporting
	// Initing is a new one, which has nothing to tell; its first heartbeat is not here yet.
	Initing
	// Up has reported and is heard of. It does what it is told.
	Up
	// Tombstone is taken for dead, or was marked gone. The policy does not know it.
	Tombstone
	// Overdue has been a TOMBSTONE for so long that it waits to be marked gone.
	Overdue
	// Returning is a TOMBSTONE that has a stream again. Until its report is in it counts as dead.
	Returning
)

var names = [...]string{"away", "reporting", "initing", "up", "tombstone", "overdue", "returning"}

func (p Phase) String() string { return names[p] }

// moves are the moves that a life may make. A stream that replaces another one ends that one first.
var moves = [...][]Phase{
	Away:      {Reporting, Tombstone},
	Reporting: {Away, Initing, Up},
	Initing:   {Away, Up},
	Up:        {Away},
	Tombstone: {Overdue, Returning},
	Overdue:   {Tombstone, Returning},
	Returning: {Tombstone, Reporting},
}

// May says that an agent in this phase may come to the next one. Where it stands already it may stay.
func (p Phase) May(next Phase) bool { return next == p || slices.Contains(moves[p], next) }

// Opened is the phase that a new session leads to.
func (p Phase) Opened() Phase {
	if p.Dead() {
		return Returning
	}
	return Reporting
}

// Closed is the phase that the end of a session leads to. An agent that was taken for dead, and has not reported since,
// stays so.
func (p Phase) Closed() Phase {
	if p.Dead() {
		return Tombstone
	}
	return Away
}

// Dead says that the agent is taken for dead: what ran there has been given up, and the policy does not know it.
func (p Phase) Dead() bool { return p == Tombstone || p == Overdue || p == Returning }

// Reported says that the agent's whole report of this session is in.
func (p Phase) Reported() bool { return p == Initing || p == Up }

// Alive says that the agent is RUNNING or BUSY: it does what it is told.
func (p Phase) Alive() bool { return p == Up }

// Account is how much an agent has told in this term, in any of its sessions. It only grows.
type Account uint8

const (
	// AccountNone is nothing yet: the agent may have tasks of earlier terms.
	AccountNone Account = iota
	// AccountGiven has named its tasks of earlier terms.
	AccountGiven
	// AccountRebooted has said as well that it was rebooted: what ran before is surely dead. (R8)
	AccountRebooted
)
