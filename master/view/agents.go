package view

import (
	"iter"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/rights"
)

// Agent is an agent as people see it. The registry's part of it is known to every master.
type Agent struct {
	// Of the registry. Its resources are with what has become reserved.
	Agent       api.Agent
	Marks       api.Mark
	Admitted    time.Time
	Maintenance api.Window // without a start there is none

	State     api.AgentState // unspecified: only the leader knows it
	Since     time.Time
	Why       string
	Missing   string        // why its stream is gone
	Allocated api.Resources // by tasks and executors
	Offered   api.Resources
	Free      api.Resources
	Revocable api.Resources // what its tasks leave unused (R28)
	Occupied  api.Resources // asked for or used, whichever is more, over all executors (R28)
	Orphans   []OrphanedVolume
	Apart     []protocol.TaskStub // tasks that no leader has launched there (R40)
	Tasks     int
	MaybeMore bool // it has not told this master what it has, so Tasks are only those of which others know
	Usage     protocol.UsageReport
	// Leaving is what frameworks have answered to the request to leave before its maintenance.
	Leaving map[api.FrameworkID]string
}

// StateWord is the agent's state for people.
func (a Agent) StateWord() string {
	if a.State == api.AgentUnspecified {
		return unknownState
	}
	return a.State.String()
}

// AgentBrief is what agents are selected by.
type AgentBrief struct {
	ID       api.AgentID
	Hostname string
	State    api.AgentState
}

// AgentSize is what agents are summed up by.
type AgentSize struct {
	ID        api.AgentID
	State     api.AgentState
	Total     api.Resources // with what has become reserved
	Used      api.Resources // by tasks and executors
	Revocable api.Resources // what its tasks leave unused (R28)
}

// OrphanedVolume is one that an agent holds and the registry does not know: kept until somebody destroys it by its
// name (R22).
type OrphanedVolume struct {
	Volume api.Resource
	Why    string
}

// lostWhy says why nothing is known of an agent that the registry does not have.
const lostWhy = "not back yet since the registry was restored or recovered; only frameworks know of it"

// agentRow is an agent of the registry, or one that only frameworks know of.
type agentRow struct {
	id   api.AgentID
	lost bool
}

// Agents returns a page of the admitted agents, and of those that only frameworks know of.
func (c Cluster) Agents(query Query) Page[Agent] {
	list := newRows[agentRow](query)
	for a := range c.agents() {
		if query.wantsAgent(&a) && c.mayRun(a.ID, query.Framework) {
			list.add(string(a.ID), agentRow{id: a.ID})
		}
	}
	lost, since := c.lostAgents()
	for id := range lost { // order: irrelevant because rows are sorted
		if query.Framework == "" && query.wantsAgent(&AgentBrief{ID: id, State: api.AgentDisconnected}) {
			list.add(string(id), agentRow{id, true})
		}
	}
	return pageOf(list, func(row agentRow) Agent {
		if row.lost {
			return Agent{Agent: api.Agent{ID: row.id}, State: api.AgentDisconnected, Since: since, Why: lostWhy, Tasks: len(lost[row.id]), MaybeMore: true}
		}
		return c.agent(row.id)
	})
}

func (q *Query) wantsAgent(a *AgentBrief) bool {
	return (q.Agent == "" || q.Agent == a.ID) && q.wantsName(string(a.ID), a.Hostname) &&
		(a.State == api.AgentUnspecified || q.wantsState(a.State.String()))
}

// mayRun says whether the agent has something of the framework, as far as this master knows. When no framework is
// named, every agent counts.
func (c Cluster) mayRun(agent api.AgentID, framework api.FrameworkID) bool {
	return framework == "" || c.Leader == nil || c.Leader.Runs(agent, framework)
}

// agents are the admitted ones, in no order.
func (c Cluster) agents() iter.Seq[AgentBrief] {
	if c.Leader != nil {
		return c.Leader.Agents()
	}
	return func(yield func(AgentBrief) bool) {
		for id, known := range c.Registry.Agents { // order: irrelevant because whoever asks sorts
			if !yield(AgentBrief{ID: id, Hostname: known.Agent.Hostname}) {
				return
			}
		}
	}
}

// sizes are those of the admitted agents, in no order.
func (c Cluster) sizes() iter.Seq[AgentSize] {
	if c.Leader != nil {
		return c.Leader.Sizes()
	}
	return func(yield func(AgentSize) bool) {
		for id, known := range c.Registry.Agents { // order: irrelevant because whoever asks sums
			if !yield(AgentSize{ID: id, Total: known.Total()}) {
				return
			}
		}
	}
}

func (c Cluster) lostAgents() (map[api.AgentID][]api.TaskRef, time.Time) {
	if c.Leader == nil {
		return nil, time.Time{}
	}
	return c.Leader.LostAgents()
}

// agent is all that is known of an admitted agent.
func (c Cluster) agent(id api.AgentID) Agent {
	a := Agent{Why: unknownWhy, MaybeMore: true}
	if c.Leader != nil {
		a = c.Leader.Agent(id)
		a.Why = c.Leader.Health(id).why(a.Why)
	}
	known := c.Registry.Agents[id]
	a.Agent, a.Marks, a.Admitted, a.Maintenance = known.Agent, known.Marks, known.Admitted, known.Maintenance
	a.Agent.Resources = known.Total()
	if !c.Sees.Covers(c.on(id, rights.Object{})) {
		a.Agent.Address = ""
	}
	return a
}
