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
	// every is the least time between two agents that are marked gone.
	every = 20 * time.Second
	// shareMax: nobody is marked gone while more than one agent, and more than one in shareMax, are away.
	shareMax = 4
	// lookAgain is after what time the share of agents that are away is computed again.
	lookAgain = time.Minute
)

// Queue holds the agents that wait to be marked gone, the longest waiting first. The zero value is empty. Holds: an
// agent that comes back, or is marked gone in another way, is skipped when its turn comes.
type Queue struct {
	waiting []api.AgentID
	last    time.Time // when an agent was last marked gone
	held    string    // why no agent is marked gone now; "" = nothing prevents it
	given   uint64    // how many were marked gone so far
}

// Add puts an agent at the end of the queue.
func (q *Queue) Add(id api.AgentID) { q.waiting = append(q.waiting, id) }

// Held says why no agent is marked gone now; "" when nothing prevents it.
func (q *Queue) Held() string { return q.held }

// Given returns how many agents were marked gone so far.
func (q *Queue) Given() uint64 { return q.given }

// Turn says what to do now.
type Turn struct {
	GiveUp api.AgentID // the agent to mark gone; "": none
	Warn   string      // why no agent is marked gone, when that is new; the warning is about First
	First  api.AgentID
	Again  time.Time // when to call Next again; zero: nobody waits
}

// Next decides about the agent that has waited longest. The function waits reports whether an agent still waits; counts
// returns how many agents are away, without those that left on purpose, and how many there are in all.
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

// manyAway returns a reason when too many agents are away at once for each of them to be dead, otherwise "".
func manyAway(away, all int) string {
	if away <= 1 || away*shareMax <= all {
		return ""
	}
	return fmt.Sprintf("%d of %d agents are away at once: that is no dead machine", away, all)
}
