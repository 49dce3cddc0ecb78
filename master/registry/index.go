package registry

import "github.com/tenderhq/tender/api"

// indexes hold what could also be found by walking the maps, to make Apply fast. They are no part of the state: they
// are neither written to disk nor hashed.
type indexes struct {
	agentOf    map[api.Nonce]api.AgentID     // by the nonce of the first contact
	instanceOf map[api.Nonce]api.FrameworkID // by the active or last instance, including tombstones
	standby    map[string]api.FrameworkID    // frameworks with Standby that are not removed, by name
	tombstones int
	storeSize  int64              // of all frameworks, in bytes
	gone       int                // how many agents are marked gone
	living     map[string]holding // what each principal has; no entry: no frameworks that are not removed

	agentBytes, frameworkBytes, roleBytes int64
}

// holding is what all frameworks of a principal that are not removed have together.
type holding struct {
	frameworks int
	bytes      int64 // what they say about themselves
	storeSize  int64
}

// count adds a framework that is not removed, or with sign -1 takes it off.
func (i *indexes) count(framework Framework, sign int) {
	principal := framework.Framework.Principal
	has := i.living[principal]
	has.frameworks += sign
	has.bytes += int64(sign) * framework.bytes()
	has.storeSize += int64(sign) * framework.StoreSize
	if i.living[principal] = has; has.frameworks == 0 {
		delete(i.living, principal)
	}
}

// AgentOf returns the agent that was admitted with the nonce of a first contact (R7).
func (s *State) AgentOf(nonce api.Nonce) (api.AgentID, bool) {
	id, known := s.index().agentOf[nonce]
	return id, known
}

// index returns the indexes. They are made anew for a state that came from disk, and for a clone.
func (s *State) index() *indexes {
	if s.memory != nil {
		return s.memory
	}
	s.memory = &indexes{
		agentOf:    make(map[api.Nonce]api.AgentID, len(s.Agents)),
		instanceOf: make(map[api.Nonce]api.FrameworkID, len(s.Frameworks)),
		standby:    make(map[string]api.FrameworkID),
		living:     make(map[string]holding),
	}
	// order: irrelevant because nonces of agents are distinct
	for id, agent := range s.Agents {
		s.memory.agentOf[agent.Nonce] = id
		s.memory.addAgent(agent)
	}
	// order: irrelevant because instances, and names of living standbys, are distinct
	for _, framework := range s.Frameworks {
		s.memory.add(framework)
	}
	for _, role := range s.Roles { // order: irrelevant because a sum is made
		s.memory.roleBytes += role.bytes()
	}
	return s.memory
}

func (i *indexes) add(framework Framework) {
	id := framework.Framework.ID
	if framework.Instance != "" {
		i.instanceOf[framework.Instance] = id
	}
	i.storeSize += framework.StoreSize
	i.frameworkBytes += framework.bytes()
	if !framework.Removed.IsZero() {
		i.tombstones++
		return
	}
	i.count(framework, 1)
	if framework.Framework.Standby {
		i.standby[framework.Framework.Name] = id
	}
}

func (i *indexes) addAgent(agent Agent) {
	i.agentBytes += agent.bytes()
	if agent.Marks.Has(api.MarkGone) {
		i.gone++
	}
}

func (i *indexes) dropAgent(agent Agent) {
	i.agentBytes -= agent.bytes()
	if agent.Marks.Has(api.MarkGone) {
		i.gone--
	}
}

func (i *indexes) drop(framework Framework) {
	id := framework.Framework.ID
	if i.instanceOf[framework.Instance] == id {
		delete(i.instanceOf, framework.Instance)
	}
	i.storeSize -= framework.StoreSize
	i.frameworkBytes -= framework.bytes()
	if !framework.Removed.IsZero() {
		i.tombstones--
		return
	}
	i.count(framework, -1)
	if framework.Framework.Standby && i.standby[framework.Framework.Name] == id {
		delete(i.standby, framework.Framework.Name)
	}
}

// replace puts a framework into the state and the indexes.
func (s *State) replace(framework Framework) {
	index := s.index()
	if old, ok := s.Frameworks[framework.Framework.ID]; ok {
		index.drop(old)
	}
	index.add(framework)
	writable(&s.Frameworks, &s.shared.frameworks)[framework.Framework.ID] = framework
}
