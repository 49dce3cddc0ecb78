package core

import "github.com/tenderhq/tender/api"

// Agents returns a page of the admitted agents. Reads change nothing; they belong to
// the shell's loop like Step.
func (c *Core) Agents(query Query) Page[AgentView] {
	var rows []*agent
	for _, a := range c.agents { // order: irrelevant because paged sorts
		if c.wantsAgent(query, a) {
			rows = append(rows, a)
		}
	}
	lost := c.lostAgents()
	for id := range lost { // order: irrelevant because paged sorts
		if a := c.lostAgent(id); query.Framework == "" && c.wantsAgent(query, a) {
			rows = append(rows, a)
		}
	}
	return paged(query, rows, func(a *agent) string { return string(a.id) }, func(a *agent) AgentView {
		if c.agents[a.id] == nil {
			return AgentView{Agent: a.info, State: a.state, Since: a.since, Why: a.why, Tasks: len(lost[a.id]), MaybeMore: true}
		}
		return c.showAgent(a)
	})
}

func (c *Core) wantsAgent(query Query, a *agent) bool {
	if query.Agent != "" && query.Agent != a.id || !query.wantsName(string(a.id), a.info.Hostname) || !query.wantsState(a.state.String()) {
		return false
	}
	return query.Framework == "" || a.runs(query.Framework)
}

// runs says whether the agent has something of the framework.
func (a *agent) runs(id api.FrameworkID) bool {
	for ref := range a.tasks { // order: irrelevant because one is enough
		if ref.Framework == id {
			return true
		}
	}
	for ref := range a.executors { // order: irrelevant because one is enough
		if ref.Framework == id {
			return true
		}
	}
	return false
}

func (c *Core) showAgent(a *agent) AgentView {
	known := c.registry.Agents[a.id]
	free := a.free()
	switch {
	case a.dead():
		free = api.Resources{}
	case c.whyWithheld(a) != "": // what its tasks leave unused is nobody's
		free = free.Firm()
	}
	info := a.info
	info.Resources = a.total // with what has become reserved
	return AgentView{
		Agent:     info,
		State:     a.state,
		Since:     a.since,
		Why:       c.whyOf(a),
		Marks:     known.Marks,
		Allocated: a.ledger.used,
		Offered:   a.ledger.offered,
		Free:      free,
		Revocable: a.gap,
		Occupied:  a.ledger.used.Firm().Plus(a.smooth.told),
		Orphans:   a.showOrphans(),
		Tasks:     c.living(a),
		MaybeMore: c.maybeMore(a),
		Usage:     a.usage,
		Admitted:  known.Admitted,

		Maintenance: known.Maintenance,
		Leaving:     c.leaving(a),
	}
}

// living counts the tasks that have not ended, also those that are UNREACHABLE or that only
// their frameworks know of.
func (c *Core) living(a *agent) int {
	count := len(c.untold(a))
	for _, t := range a.tasks { // order: irrelevant because it counts
		if !t.status.State.Terminal() {
			count++
		}
	}
	return count
}
