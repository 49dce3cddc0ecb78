// Package overdue says which agent is marked gone next, of those that are away for too long. It is careful: a switch or
// a power line that fails takes many machines away at once, which come back with their tasks. (Protocol rule R16.)
package overdue

import (
	"fmt"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
)

const (
	// every is the least time between two agents that are given up.
	every = 20 * time.Second
	// shareMax: while more than one agent, and more than one of so many, are away, nobody is given up.
	shareMax = 4
	// lookAgain is when the share is looked at again.
	lookAgain = time.Minute
)

// Queue are the agents that wait to be given up, the longest first. The zero value has none.
// Holds: whoever is in it and comes back, or is given up otherwise, is skipped.
type Queue struct {
	waiting []api.AgentID
	last    time.Time // when one was given up
	held    string    // why nobody is; "" = nothing is in the way
	given   uint64    // so far
}

// Add lets an agent wait for its turn.
func (q *Queue) Add(id api.AgentID) { q.waiting = append(q.waiting, id) }

// Held says why nobody is given up just now, "" when nothing is in the way.
func (q *Queue) Held() string { return q.held }

// Given is how many were given up so far.
func (q *Queue) Given() uint64 { return q.given }

// Turn is what is to be done now.
type Turn struct {
	GiveUp api.AgentID // "": nobody
	Warn   string      // why nobody is given up, when that is new; it concerns First
	First  api.AgentID
	Again  time.Time // when to ask again; zero: nobody waits
}

// Next is the turn of who waits for longest. It is told who waits still, and how many agents of all are away, but for
// those that left on purpose.
func (q *Queue) Next(now time.Time, waits func(api.AgentID) bool, counts func() (away, all int)) Turn {
	q.waiting = slices.DeleteFunc(q.waiting, func(id api.AgentID) bool { return !waits(id) })
	if len(q.waiting) == 0 {
		q.held = ""
		return Turn{}
	}
	if next := q.last.Add(every); !q.last.IsZero() && next.After(now) {
		return Turn{Again: next}
	}
	before, first := q.held, q.waiting[0]
	if q.held = manyAway(counts()); q.held != "" {
		turn := Turn{First: first, Again: now.Add(lookAgain)}
		if before == "" {
			turn.Warn = q.held
		}
		return turn
	}
	q.waiting = q.waiting[1:]
	q.last, q.given = now, q.given+1
	return Turn{GiveUp: first, Again: now.Add(every)}
}

// manyAway says that too many are away at once for each of them to be dead, "" when that is not so.
func manyAway(away, all int) string {
	if away <= 1 || away*shareMax <= all {
		return ""
	}
	return fmt.Sprintf("%d of %d agents are away at once: that is no dead machine", away, all)
}
