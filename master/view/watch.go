package view

import (
	"slices"

	"github.com/tenderhq/tender/api"
)

// watchedAgentsMax bounds how many agents a watcher is told of at once, because the leader's loop waits meanwhile.
const watchedAgentsMax = 256

// AgentWatch is a watch of agents. It remembers what its watcher was told of each, so that only changes are told.
type AgentWatch struct {
	only []api.AgentID // empty: all agents
	told map[api.AgentID]AgentStanding
}

// AgentStanding holds what a watcher is told about an agent. A change of anything else is not told.
type AgentStanding struct {
	State api.AgentState
	Marks api.Mark
	Tasks int // tasks that have not ended
}

// AgentNews is what has changed since a watcher was last told.
type AgentNews struct {
	Changed []Agent       // in natural order
	Removed []api.AgentID // agents that were watched by name or told of, and no longer exist
	More    bool          // more has changed than is told at once
}

// WatchAgents begins a watch of these agents, or of all when none is named.
func WatchAgents(only []api.AgentID) *AgentWatch {
	only = slices.Compact(slices.Sorted(slices.Values(only)))
	return &AgentWatch{only: only, told: make(map[api.AgentID]AgentStanding)}
}

// removedStanding stands for an agent that no longer exists, which is told once.
var removedStanding = AgentStanding{Tasks: -1}

// News returns what has changed since the last call. It needs the leader's cluster.
func (w *AgentWatch) News(c Cluster) AgentNews {
	news := newRows[api.AgentID](Query{Limit: watchedAgentsMax})
	now := make(map[api.AgentID]AgentStanding)
	look := func(id api.AgentID) {
		standing := removedStanding
		if known, admitted := c.Registry.Agents[id]; admitted {
			standing = c.Leader.Standing(id)
			standing.Marks = known.Marks
		}
		if told, before := w.told[id]; !before || told != standing {
			now[id] = standing
			news.add(string(id), id)
		}
	}
	for _, id := range w.only {
		look(id)
	}
	if len(w.only) == 0 {
		for id := range c.Registry.Agents { // order: irrelevant because rows are sorted
			look(id)
		}
		for id := range w.told { // order: irrelevant because rows are sorted
			if _, admitted := c.Registry.Agents[id]; !admitted {
				look(id)
			}
		}
	}
	return w.tell(c, news, now)
}

// tell returns the first page of the changed agents, and remembers what was told.
func (w *AgentWatch) tell(c Cluster, news *rows[api.AgentID], now map[api.AgentID]AgentStanding) (told AgentNews) {
	page := pageOf(news, func(id api.AgentID) api.AgentID { return id })
	told.More = page.Next != ""
	for _, id := range page.Items {
		switch w.told[id] = now[id]; {
		case now[id] != removedStanding:
			told.Changed = append(told.Changed, c.agent(id))
			continue
		case len(w.only) == 0:
			delete(w.told, id)
		}
		told.Removed = append(told.Removed, id)
	}
	return told
}
