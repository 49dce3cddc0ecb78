package core

import (
	"fmt"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
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
	Attribute, Value string // that agents of the class have; zone and region are attributes too
	After            time.Duration
}

// overdue are the agents that have been TOMBSTONE for too long and are not marked gone yet, the longest first.
// Holds: whoever is in it and comes back, or is marked otherwise, is not overdue any more, and is skipped.
type overdue struct {
	queue  []*agent
	last   time.Time // when one was marked
	held   string    // why nobody is; "" = nothing is in the way
	next   *deadline
	marked uint64 // in this term
}

// goneAfter is for how long an agent may be TOMBSTONE; negative = for ever.
func (c *Core) goneAfter(a *agent) time.Duration {
	for _, class := range c.config.GoneAfterOf {
		if a.has(class.Attribute, class.Value) {
			return class.After
		}
	}
	return c.config.GoneAfter
}

func (a *agent) has(attribute, value string) bool {
	switch own, is := a.info.Attributes[attribute]; {
	case is:
		return own == value
	case attribute == "zone":
		return a.info.Zone == value
	case attribute == "region":
		return a.info.Region == value
	}
	return false
}

// awaitReturn starts the time after which a TOMBSTONE is given up, if it ever is.
func (c *Core) awaitReturn(a *agent) {
	if after := c.goneAfter(a); after > 0 {
		c.deadlines.set(a.clock, c.now.Add(after))
	} else {
		c.deadlines.clear(a.clock)
	}
}

// giveUp lets an agent wait for its turn to be marked gone.
func (c *Core) giveUp(a *agent) {
	if a.phase != phaseOverdue {
		a.enter(phaseOverdue)
		c.overdue.queue = append(c.overdue.queue, a)
	}
	c.markOverdue()
}

// markOverdue marks the agent gone that waits for longest, when one may be.
func (c *Core) markOverdue() {
	o := &c.overdue
	o.queue = slices.DeleteFunc(o.queue, func(a *agent) bool { return a.phase != phaseOverdue })
	if len(o.queue) == 0 {
		o.held = ""
		c.deadlines.clear(o.next)
		return
	}
	if turn := o.last.Add(goneEvery); !o.last.IsZero() && turn.After(c.now) {
		c.deadlines.set(o.next, turn)
		return
	}
	held := c.manyAway()
	if held != "" && o.held == "" {
		c.warn("agents are not marked gone", field("why", held), field("first", o.queue[0].id))
	}
	if o.held = held; held != "" {
		c.deadlines.set(o.next, c.now.Add(goneLookAgain))
		return
	}
	a := o.queue[0]
	o.queue = o.queue[1:]
	a.enter(phaseTombstone)
	o.last, o.marked = c.now, o.marked+1
	why := "TOMBSTONE for " + c.goneAfter(a).String() + " (gone-after)"
	c.warn("agent is given up", field("agent", a.id), field("why", why))
	c.propose(registry.MarkAgent{ID: a.id, Set: api.MarkGone, Why: why})
	c.deadlines.set(o.next, c.now.Add(goneEvery))
}

// manyAway says that too many agents are away at once for each of them to be dead, "" when that is not so. Those that
// were drained left on purpose.
func (c *Core) manyAway() string {
	all, away := 0, 0
	for _, a := range c.agents { // order: irrelevant because it counts
		switch marks := c.marks(a); {
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
