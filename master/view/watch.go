package view

import (
	"slices"

	"github.com/tenderhq/tender/api"
)

// watchedAgentsMax bounds how many agents are told of at once, as the leader's loop waits meanwhile.
const watchedAgentsMax = 256

// AgentWatch is somebody who watches agents: what was told of each, so that only changes are told from then on.
type AgentWatch struct {
	only []api.AgentID // none: all
	told map[api.AgentID]AgentStanding
}

// AgentStanding is what a watcher hears of an agent for. A change of anything else is no news.
type AgentStanding struct {
	State api.AgentState
	Marks api.Mark
	Tasks int // that have not ended
}

// AgentNews is what has changed since a watcher was told last.
type AgentNews struct {
	Changed []Agent       // in natural order
	Removed []api.AgentID // that were watched by name or told of, and are no more
	More    bool          // there is more than is told at once
}

// WatchAgents begins a watch of these agents, or of all when none is named.
func WatchAgents(only []api.AgentID) *AgentWatch {
	only = slices.Compact(slices.Sorted(slices.Values(only)))
	return &AgentWatch{only: only, told: make(map[api.AgentID]AgentStanding)}
}

// removedStanding stands for an agent that is no more, which is told once.
var removedStanding = AgentStanding{Tasks: -1}

// News is what has changed since it was asked for last. Only of the leader's cluster is there any.
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

// tell notes what is told of a page of those that have changed.
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
