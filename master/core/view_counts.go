package core

import (
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/registry"
)

// Counts is how many there are, for metrics.
type Counts struct {
	Agents     map[api.AgentState]int
	Frameworks int // subscribed or awaited
	Active     int // subscribed
	Tasks      map[api.TaskState]int
	Offers     int
	Schedulers int    // streams
	Links      int    // streams of agents
	Pending    int    // proposals under way
	Voices     uint64 // words of agents about what is not theirs, refused in this term
	Given      uint64 // agents that were marked gone in this term because they were away for too long
	Ill        map[Illness]int
	Versions   uint64 // that were refused in this term
	Overdue    int    // agents that wait for that
	// Revocable is what all agents' tasks leave unused, and RevocableUsed what tasks hold of it.
	Revocable, RevocableUsed api.Resources
	// Placed are the sums of those frameworks that say how their tasks came to agents.
	Placed map[api.FrameworkID]Placements
}

// Counts walks everything once.
func (c *Core) Counts() Counts {
	counts := Counts{
		Agents:     make(map[api.AgentState]int),
		Tasks:      make(map[api.TaskState]int),
		Placed:     make(map[api.FrameworkID]Placements),
		Offers:     len(c.offers),
		Schedulers: len(c.sessions),
		Links:      len(c.links),
		Pending:    len(c.pending),
		Voices:     c.voices,
		Given:      c.overdue.marked,
		Ill:        make(map[Illness]int),
		Versions:   c.versions.Count,
	}
	for _, a := range c.agents { // order: irrelevant because they are counted
		counts.Agents[a.state]++
		if a.phase == phaseOverdue {
			counts.Overdue++
		}
		for _, illness := range Illnesses {
			if c.illOf(a, illness) != "" {
				counts.Ill[illness]++
			}
		}
		counts.Revocable = counts.Revocable.Plus(a.gap)
		counts.RevocableUsed = counts.RevocableUsed.Plus(a.used.Revocable())
		for _, t := range a.tasks { // order: irrelevant because they are counted
			counts.Tasks[t.status.State]++
		}
		counts.Tasks[api.TaskUnreachable] += len(c.untold(a))
	}
	for _, fw := range c.frameworks { // order: irrelevant because they are counted
		if !fw.removed && fw.placed.Tasks() > 0 {
			counts.Placed[fw.id] = fw.placed
		}
		switch {
		case fw.removed:
		case fw.session != nil:
			counts.Active++
			fallthrough
		default:
			counts.Frameworks++
		}
	}
	return counts
}

// Registry is the core's copy of the registry, as far as the commits it was told of.
// Read only, and only in the shell's loop.
func (c *Core) Registry() *registry.State { return c.registry }
