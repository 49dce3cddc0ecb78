package core

import (
	"fmt"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/core/life"
	"github.com/tenderhq/tender/master/registry"
)

// Agents that are a TOMBSTONE for too long are marked gone, with care: a switch or a power line that fails takes many
// machines away at once, which come back with their tasks. (Protocol rule R16.)
const (
	// goneEvery is the least time between two agents that are marked gone.
	goneEvery = 20 * time.Second
	// goneShareMax: while more than one agent, and more than one of so many, are away, nobody is marked.
	goneShareMax = 4
	// goneLookAgain is when the share is looked at again.
	goneLookAgain = time.Minute
)

// GoneAfter is for how long agents of a class may be TOMBSTONE before they are marked gone.
type GoneAfter struct {
	Attribute, Value string // that agents of the class have (api.Agent.Has)
	After            time.Duration
}

// overdue are the agents that have been TOMBSTONE for too long and are not marked gone yet, the longest first.
// Holds: whoever is in it and comes back, or is marked otherwise, is not overdue any more, and is skipped.
type overdue struct {
	*base
	proposals *proposals

	queue  []*agent
	last   time.Time // when one was marked
	held   string    // why nobody is; "" = nothing is in the way
	next   *deadline
	marked uint64 // in this term
}

// goneAfter is for how long an agent may be TOMBSTONE; negative = for ever.
func (r *overdue) goneAfter(a *agent) time.Duration {
	for _, class := range r.config.GoneAfterOf {
		if a.info.Has(class.Attribute, class.Value) {
			return class.After
		}
	}
	return r.config.GoneAfter
}

// awaitReturn starts the time after which a TOMBSTONE is given up, if it ever is.
func (r *overdue) awaitReturn(a *agent) {
	if after := r.goneAfter(a); after > 0 {
		r.deadlines.set(a.clock, r.now.Add(after))
	} else {
		r.deadlines.clear(a.clock)
	}
}

// giveUp lets an agent wait for its turn to be marked gone.
func (r *overdue) giveUp(a *agent) {
	if a.phase != life.Overdue {
		a.enter(life.Overdue)
		r.queue = append(r.queue, a)
	}
	r.markOverdue()
}

// markOverdue marks the agent gone that waits for longest, when one may be.
func (r *overdue) markOverdue() {
	r.queue = slices.DeleteFunc(r.queue, func(a *agent) bool { return a.phase != life.Overdue })
	if len(r.queue) == 0 {
		r.held = ""
		r.deadlines.clear(r.next)
		return
	}
	if turn := r.last.Add(goneEvery); !r.last.IsZero() && turn.After(r.now) {
		r.deadlines.set(r.next, turn)
		return
	}
	held := r.manyAway()
	if held != "" && r.held == "" {
		r.warn("agents are not marked gone", field("why", held), field("first", r.queue[0].id))
	}
	if r.held = held; held != "" {
		r.deadlines.set(r.next, r.now.Add(goneLookAgain))
		return
	}
	a := r.queue[0]
	r.queue = r.queue[1:]
	a.enter(life.Tombstone)
	r.last, r.marked = r.now, r.marked+1
	why := "TOMBSTONE for " + r.goneAfter(a).String() + " (gone-after)"
	r.warn("agent is given up", field("agent", a.id), field("why", why))
	r.proposals.propose(registry.MarkAgent{ID: a.id, Set: api.MarkGone, Why: why})
	r.deadlines.set(r.next, r.now.Add(goneEvery))
}

// manyAway says that too many agents are away at once for each of them to be dead, "" when that is not so. Those that
// were drained left on purpose.
func (r *overdue) manyAway() string {
	all, away := 0, 0
	for _, a := range r.agentByID { // order: irrelevant because it counts
		switch marks := r.marks(a); {
		case marks.Has(api.MarkGone):
		case a.link == nil && !marks.Has(api.MarkDrained):
			away++
			fallthrough
		default:
			all++
		}
	}
	if away <= 1 || away*goneShareMax <= all {
		return ""
	}
	return fmt.Sprintf("%d of %d agents are away at once: that is no dead machine", away, all)
}
