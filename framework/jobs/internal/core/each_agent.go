package core

import (
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/jobs"
)

// A sub-job that has an index on each agent (EachAgent) gives each slot to one agent for good. A slot whose agent is
// silent waits for it; one whose task is lost is forgotten, and the agent is given a new one when it is offered again.

// unclaimedMost is for how long a slot waits for an offer of its agent. Then the agent is taken for one that has left.
const unclaimedMost = time.Hour

// slotAt is the slot of an agent; nil: it has none.
func (s *subJob) slotAt(agent api.AgentID) *slot {
	if index, is := s.AtAgent[agent]; is {
		return s.slot(index)
	}
	return nil
}

// takes says whether an agent may have the next task of the version.
func (s *subJob) takes(version, fresh int, agent api.AgentID) bool {
	if !s.EachAgent {
		return true
	}
	if one := s.slotAt(agent); one != nil {
		return one.Queued && one.Version == version
	}
	return version == fresh && s.fresh() > 0
}

// Takes says whether the next task of the ask may go to the agent.
func (m *JobMaster) Takes(ask Ask, agent api.AgentID) bool {
	s := m.sub(ask.SubJob)
	switch {
	case s == nil:
		return false
	case ask.Copy:
		return s.wish(ask.Version, agent) != nil
	}
	return s.takes(ask.Version, m.Cron.versionOf(s, m.Version), agent)
}

// bind gives the slot to the agent.
func (s *subJob) bind(one *slot, agent api.AgentID) {
	if s.EachAgent {
		one.Agent = agent
		s.AtAgent[agent] = one.Index
	}
}

// emptyParts lists the parts without indexes but the last, which knows how many attempts it had: the next index is
// behind it.
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

// await has a slot wait for an agent; in a sub-job on each agent for its own, and not for ever.
func (m *JobMaster) await(s *subJob, one *slot) {
	s.queue(one)
	if s.EachAgent {
		m.Alarms.set(alarm{At: m.now.Add(unclaimedMost), Kind: unclaimed, SubJob: s.Name, Index: one.Index})
	}
}

// renew takes a slot without a task out of the way of a change. One whose agent is silent is of the new version from now
// on, so that an older task that comes back is ended.
func (s *subJob) renew(one *slot, version int) {
	if one.Lost == nil {
		s.drop(one)
		return
	}
	s.unqueue(one)
	one.Version, one.Trial = version, false
}

// freshOnAgents is how many agents more may have a task.
func (s *subJob) freshOnAgents() int { return max(0, jobs.TasksMax-s.Slots) }
