package core

import (
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/jobs"
)

// In a sub-job with an index on each agent (EachAgent) a slot belongs to one agent for good. If the slot's agent is
// silent, the slot waits for it. If its task is lost, the slot is forgotten, and the agent gets a new slot when it is
// offered again.

// unclaimedMost is how long a slot waits for an offer of its agent. After that the agent is assumed to have left.
const unclaimedMost = time.Hour

// slotAt returns the slot of the agent; nil: it has none.
func (s *subJob) slotAt(agent api.AgentID) *slot {
	if index, is := s.AtAgent[agent]; is {
		return s.slotOf(index)
	}
	return nil
}

// mayTake reports whether the agent may have the next task of the version.
func (s *subJob) mayTake(version, fresh int, agent api.AgentID) bool {
	if !s.EachAgent {
		return s.Avoid == 0 || s.headOfQueue(version, agent) != nil || version == fresh && s.countFresh() > 0
	}
	if one := s.slotAt(agent); one != nil {
		return one.Queued && one.Version == version
	}
	return version == fresh && s.countFresh() > 0
}

// Takes reports whether the next task of the ask may go to the agent.
func (m *JobMaster) Takes(ask Ask, agent api.AgentID) bool {
	s := m.subJobNamed(ask.SubJob)
	switch {
	case s == nil:
		return false
	case ask.Copy:
		return s.nextWish(ask.Version, agent) != nil
	}
	return s.mayTake(ask.Version, m.Cron.versionOf(s, m.Version), agent)
}

// bindAgent gives the slot to the agent.
func (s *subJob) bindAgent(one *slot, agent api.AgentID) {
	if s.EachAgent {
		one.Agent = agent
		s.AtAgent[agent] = one.Index
	}
}

// emptyParts returns the parts without slots, except for the last part: that one knows how many attempts there were,
// and the next index comes after it.
func (s *subJob) emptyParts() (numbers []int) {
	if !s.EachAgent {
		return nil
	}
	all := slices.Sorted(maps.Keys(s.Parts))
	for _, number := range all[:max(0, len(all)-1)] {
		if len(s.Parts[number].Slots) == 0 {
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// awaitAgent lets the slot wait for an agent. In a sub-job with an index on each agent it waits for its own agent, and not
// without limit.
func (m *JobMaster) awaitAgent(s *subJob, one *slot) {
	s.queueSlot(one)
	if one.Avoids != "" {
		m.Alarms.set(alarm{At: m.now.Add(backoffOf(m.taskOf(s, one.Version)).AvoidFor()), Kind: avoidOver, SubJob: s.Name, Index: one.Index, Attempt: one.Tries})
	}
	if s.EachAgent {
		m.Alarms.set(alarm{At: m.now.Add(unclaimedMost), Kind: unclaimed, SubJob: s.Name, Index: one.Index})
	}
}

// renewSlot removes a slot without a task, so that it does not hold up a change. If the slot's agent is silent, the slot
// stays and gets the new version, so that an older task that comes back is ended.
func (s *subJob) renewSlot(one *slot, version int) {
	if len(one.Attempts) == 0 {
		s.dropSlot(one)
		return
	}
	s.unqueueSlot(one)
	one.Version, one.Trial = version, false
}

// freshOnAgents returns how many more agents may get a task.
func (s *subJob) freshOnAgents() int { return max(0, jobs.TasksMax-s.Slots) }
