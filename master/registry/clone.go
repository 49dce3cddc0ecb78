package registry

import (
	"maps"

	"github.com/tenderhq/tender/api"
)

// shared says which maps a clone uses as well.
type shared struct{ masters, agents, frameworks, roles, clients, tokens bool }

// owner is compared by its address, so its size must not be zero.
type owner struct{ _ byte }

// New returns the empty registry.
func New() *State { return &State{Counts: Counts{NextAgent: 1, NextFramework: 1, NextVolume: 1}} }

// Clone returns a copy that later commands do not change. It copies nothing at first: each of the two copies a map when
// it first writes to it. Whoever may call Apply on a state may call Clone; the clone then belongs to the caller.
func (s *State) Clone() *State {
	s.shared = shared{true, true, true, true, true, true}
	s.owner = nil
	clone := *s
	clone.memory = nil
	return &clone
}

// writable returns the map for writing. It copies a map that a clone uses.
func writable[K comparable, V any](m *map[K]V, shared *bool) map[K]V {
	switch {
	case *m == nil:
		*m = make(map[K]V)
	case *shared:
		*m = maps.Clone(*m)
	}
	*shared = false
	return *m
}

// copied returns a copy of a map, never nil. It is for small maps that change rarely, so that clones share them.
func copied[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return make(map[K]V)
	}
	return maps.Clone(m)
}

func (s *State) setAgent(agent Agent) {
	index := s.index()
	if old, known := s.Agents[agent.Agent.ID]; known {
		index.dropAgent(old)
	}
	index.addAgent(agent)
	writable(&s.Agents, &s.shared.agents)[agent.Agent.ID] = agent
}

func (s *State) forgetAgent(id api.AgentID) {
	s.index().dropAgent(s.Agents[id])
	delete(s.index().agentOf, s.Agents[id].Nonce)
	delete(writable(&s.Agents, &s.shared.agents), id)
}

// store returns the framework's store for writing, copied if a clone uses it. The caller must put the framework back.
func (s *State) store(framework *Framework) map[string]Entry {
	if s.owner == nil {
		s.owner = new(owner)
	}
	if framework.storeOwner != s.owner {
		framework.Store = maps.Clone(framework.Store)
		framework.storeOwner = s.owner
	}
	if framework.Store == nil {
		framework.Store = make(map[string]Entry)
	}
	return framework.Store
}
