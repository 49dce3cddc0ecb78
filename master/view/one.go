package view

import (
	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// This file finds single rows of the leader's lists, for whoever keeps a copy of them. Each function returns false when
// the list has no such row.

// OneAgent returns the agent as the list of agents shows it.
func (c Cluster) OneAgent(id api.AgentID) (Agent, bool) {
	if _, admitted := c.Registry.Agents[id]; admitted {
		return c.agent(id), true
	}
	if !c.Registry.LostAgent(id) {
		return Agent{}, false
	}
	lost, since := c.lostAgents()
	return lostAgent(id, len(lost[id]), since), len(lost[id]) > 0
}

// OneFramework returns the framework as the list shows it that leaves out removed ones of which nothing runs.
func (c Cluster) OneFramework(id api.FrameworkID, shares allocator.Shares) (Framework, bool) {
	if _, known := c.known(id); !known {
		return Framework{}, false
	}
	f := c.framework(id)
	f.DominantShare = shares.Frameworks[id]
	return f, true
}

// OneTask returns the task as the list shows it that leaves out those that are over.
func (c Cluster) OneTask(ref api.TaskRef) (Task, bool) {
	row := taskRow{ref: ref}
	if _, is := c.settle(&row); !is {
		return Task{}, false
	}
	return c.task(row), true
}

// OneOffer returns the offer if it is open.
func (c Cluster) OneOffer(id api.OfferID) (Offer, bool) {
	if !c.Leader.IsOpen(id) {
		return Offer{}, false
	}
	return c.Leader.Offer(id), true
}
