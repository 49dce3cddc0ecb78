package core

import (
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/core/life"
)

// What is known of agents that are not back after a failover, a restored snapshot or a recovered majority: only what
// their frameworks say. It is shown and counted until the agent tells what it has. (Protocol rule R8.)

// untold are the tasks of an agent that is not back, as their frameworks have named them: frameworks that are
// connected, and those that have left meanwhile and may come back.
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

// maybeMore says that the agent may have tasks of which nobody has spoken.
func (r *answers) maybeMore(a *agent) bool {
	return a.account == life.AccountNone && !r.marks(a).Has(api.MarkGone)
}

// lostAgents are agents on which frameworks have tasks, and which the registry does not know since it was restored or
// recovered; with these tasks.
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

// noteLost remembers for people which tasks a framework has on an agent that the registry does not know.
func (s *session) noteLost(task api.TaskID, agent api.AgentID) {
	if s.lost == nil {
		s.lost = make(map[api.TaskID]api.AgentID)
	}
	if len(s.lost) < unsettledTasksMax {
		s.lost[task] = agent
	}
}

// killAhead keeps an operator's wish for a task that only its framework knows of, until its agent is back.
func (r *kills) killAhead(a *agent, ref api.TaskRef, grace time.Duration) {
	if a.killsAhead == nil {
		a.killsAhead = make(map[api.TaskRef]kill)
	}
	ahead := a.killsAhead[ref]
	ahead.reason = api.ReasonKilledByOperator
	ahead.graces.Ask(grace)
	a.killsAhead[ref] = ahead
	r.info("task kill", field("task", ref.String()), field("agent", a.id), field("reason", api.ReasonKilledByOperator.String()))
}
