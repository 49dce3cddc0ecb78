package core

import (
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/core/life"
)

// What follows is about tasks of agents that are not back after a failover, a restored snapshot or a recovered majority.
// Only their frameworks have named these tasks. They are shown and counted until the agent has reported. (Protocol rule
// R8.)

// untold returns the tasks of an agent that is not back, as frameworks have named them. That includes frameworks that
// have disconnected since and may come back.
func (r *answers) untold(a *agent) []api.TaskRef {
	var refs []api.TaskRef
	for _, q := range a.questions {
		fw := q.session.framework
		if q.task != "" && q.agent == a.id && fw.latest == q.session && !fw.removed && fw.tasks[q.task] == nil {
			refs = append(refs, api.TaskRef{Framework: fw.id, Task: q.task})
		}
	}
	return refs
}

// maybeMore reports whether the agent may have tasks that nobody has named.
func (r *answers) maybeMore(a *agent) bool {
	return a.account == life.AccountNone && !r.marks(a).Has(api.MarkGone)
}

// lostAgents returns the agents that the registry does not know since it was restored or recovered, with the tasks that
// frameworks have there.
func (r *answers) lostAgents() map[api.AgentID][]api.TaskRef {
	lost := make(map[api.AgentID][]api.TaskRef)
	for _, fw := range r.frameworkByID { // order: irrelevant because the lists are sorted
		if fw.latest == nil || fw.removed {
			continue
		}
		for task, agent := range fw.latest.lost { // order: irrelevant because the lists are sorted
			if r.agentByID[agent] == nil && r.registry.LostAgent(agent) && fw.tasks[task] == nil {
				lost[agent] = append(lost[agent], api.TaskRef{Framework: fw.id, Task: task})
			}
		}
	}
	for _, refs := range lost { // order: irrelevant because each is sorted alone
		slices.SortFunc(refs, api.TaskRef.Compare)
	}
	return lost
}

// missesLost reports whether frameworks have named an agent that the registry does not know since it was restored or
// recovered.
func (r *answers) missesLost() bool {
	if len(r.registry.LostAgents) == 0 {
		return false
	}
	for _, fw := range r.frameworkByID { // order: irrelevant because any will do
		if fw.latest == nil || fw.removed {
			continue
		}
		for _, agent := range fw.latest.lost { // order: irrelevant because any will do
			if agent != "" && r.agentByID[agent] == nil && r.registry.LostAgent(agent) {
				return true
			}
		}
	}
	return false
}

// askLost asks an agent that was admitted about the tasks that any agent may have which the registry did not know.
func (r *answers) askLost(a *agent) {
	for _, name := range sortedKeys(r.frameworkByID) {
		s := r.frameworkByID[name].session
		if s == nil {
			continue
		}
		for _, task := range sortedKeys(s.lost) {
			if s.lost[task] == "" {
				delete(s.lost, task)
				r.askLater(s, a, question{task: task, reason: api.ReasonReconciliation})
			}
		}
	}
}

// tellLost answers frameworks about their tasks on an agent that only they knew, and about those that it may have had,
// when that agent is removed.
func (r *answers) tellLost(id api.AgentID) {
	r.noteLost(id)
	for _, name := range sortedKeys(r.frameworkByID) {
		s := r.frameworkByID[name].session
		if s == nil {
			continue
		}
		for _, task := range sortedKeys(s.lost) {
			if agent := s.lost[task]; agent == id || agent == "" {
				delete(s.lost, task)
				r.owe(s, question{task: task, agent: agent, past: true, reason: api.ReasonReconciliation})
			}
		}
	}
}

// awaits returns the agent on which a task of that ID may run that nobody but its scheduler knows, "" for any that is not
// back, and whether there is such a task.
func (s *session) awaits(b *base, task api.TaskID) (agent api.AgentID, awaits bool) {
	if agent, awaits = s.absent[task]; awaits {
		return agent, true
	}
	agent, awaits = s.lost[task]
	return agent, awaits && b.agentByID[agent] == nil && (agent == "" || b.registry.LostAgent(agent))
}

// noteLost remembers that a framework has a task on an agent that the registry does not know. It is shown to people.
func (s *session) noteLost(task api.TaskID, agent api.AgentID) {
	if s.lost == nil {
		s.lost = make(map[api.TaskID]api.AgentID)
	}
	if _, named := s.lost[task]; len(s.lost) < unsettledTasksMax && (agent != "" || !named) {
		s.lost[task] = agent
	}
}

// noteLatest notes the tasks that only the framework's latest session has named, because they are shown as long as it is
// the latest one.
func (b *base) noteLatest(fw *framework) {
	if fw.latest == nil {
		return
	}
	for _, named := range []map[api.TaskID]api.AgentID{fw.latest.absent, fw.latest.lost} {
		for _, task := range sortedKeys(named) {
			b.noteUntold(fw.id, task, named[task])
		}
	}
}

// noteLost notes the tasks that only frameworks have named on an agent which the registry does not know, because what it
// knows of the agent has changed.
func (b *base) noteLost(agent api.AgentID) {
	var with []api.FrameworkID
	for id, fw := range b.frameworkByID { // order: irrelevant because they are sorted
		if fw.latest != nil && len(fw.latest.lost) > 0 {
			with = append(with, id)
		}
	}
	slices.Sort(with)
	for _, id := range with {
		lost := b.frameworkByID[id].latest.lost
		for _, task := range sortedKeys(lost) {
			if lost[task] == agent {
				b.noteUntold(id, task, agent)
			}
		}
	}
}
