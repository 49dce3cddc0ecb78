package view

import (
	"iter"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/trust/rights"
)

// Agent is an agent as people see it. Every master knows the part that is from the registry.
type Agent struct {
	// From the registry. Agent.Resources is the total, with dynamic reservations.
	Agent       api.Agent
	Marks       api.Mark
	Admitted    time.Time
	Maintenance api.Window // no window if it has no start

	State     api.AgentState // unspecified on a follower, because only the leader knows it
	Since     time.Time
	Why       string
	Ill       []Illness     // of which Why has the sentences
	Missing   string        // why it has no stream
	Allocated api.Resources // what tasks and executors use
	Offered   api.Resources
	Free      api.Resources
	Revocable api.Resources // what its tasks leave unused (R28)
	Occupied  api.Resources // the larger of asked for and used, summed over all executors (R28)
	Volumes   Volumes
	Apart     []protocol.TaskStub // tasks that no leader has launched there (R40)
	Tasks     int
	// MaybeMore says that the agent has not reported to this master yet, so that Tasks are only those that others know
	// of.
	MaybeMore bool
	Usage     protocol.UsageReport
	// Leaving holds what frameworks have answered to the request to leave before its maintenance.
	Leaving map[api.FrameworkID]string
	// Unacknowledged are the frameworks for which its drain waits although their tasks have ended (R31).
	Unacknowledged []api.FrameworkID
}

// StateWord returns the agent's state as a word for people.
func (a Agent) StateWord() string {
	if a.State == api.AgentUnspecified {
		return unknownState
	}
	return a.State.String()
}

// AgentBrief has the fields by which agents are selected.
type AgentBrief struct {
	ID       api.AgentID
	Hostname string
	State    api.AgentState
}

// AgentSize has the fields by which agents are summed up.
type AgentSize struct {
	ID        api.AgentID
	State     api.AgentState
	Total     api.Resources // with dynamic reservations
	Used      api.Resources // used by tasks and executors
	Offered   api.Resources
	Revocable api.Resources // what its tasks leave unused (R28)
	Usage     api.Usage     // of everything on it, as it last reported
}

// Volumes are the persistent volumes of an agent.
type Volumes struct {
	Booked  map[api.VolumeID]uint64 // the generation of each that the registry has; nil: it has none
	Orphans []OrphanedVolume
}

// OrphanedVolume is a volume that an agent holds and the registry does not know. It is kept until somebody destroys it
// by its name (R22).
type OrphanedVolume struct {
	Volume api.Resource
	Why    string
}

// lostWhy is the reason why nothing is known of an agent that the registry does not have.
const lostWhy = "not back yet since the registry was restored or recovered; only frameworks know of it"

// AgentList notes the admitted agents, and those that only frameworks have named.
func AgentList(c Cluster, _ Query) Listing[Agent] {
	list := &listing[api.AgentID, Agent]{name: func(id api.AgentID) string { return string(id) }}
	list.reader = func(c Cluster, query *Query) func(api.AgentID) (Agent, bool) {
		lost, since := c.lostAgents()
		return func(id api.AgentID) (Agent, bool) {
			_, admitted := c.Registry.Agents[id]
			switch tasks := len(lost[id]); {
			case admitted && c.wantsAgent(query, id):
				return c.agent(id), true
			case !admitted && tasks > 0 && query.Framework == "" && query.wantsAgent(&AgentBrief{ID: id, State: api.AgentDisconnected}):
				return lostAgent(id, tasks, since), true
			}
			return Agent{}, false
		}
	}
	for id := range c.Registry.Agents { // order: irrelevant because rows are sorted
		list.note(id)
	}
	lost, _ := c.lostAgents()
	for id := range lost { // order: irrelevant because rows are sorted
		list.note(id)
	}
	return list
}

// wantsAgent reports whether the query selects the admitted agent.
func (c Cluster) wantsAgent(query *Query, id api.AgentID) bool {
	brief := AgentBrief{ID: id, Hostname: c.Registry.Agents[id].Agent.Hostname}
	if c.Leader != nil {
		brief.State = c.Leader.StateOf(id)
	}
	return query.wantsAgent(&brief) && c.mayRun(id, query.Framework)
}

// lostAgent returns an agent that only frameworks have named, with so many tasks.
func lostAgent(id api.AgentID, tasks int, since time.Time) Agent {
	return Agent{Agent: api.Agent{ID: id}, State: api.AgentDisconnected, Since: since, Why: lostWhy, Tasks: tasks, MaybeMore: true}
}

func (q *Query) wantsAgent(a *AgentBrief) bool {
	return (q.Agent == "" || q.Agent == a.ID) && q.wantsName(string(a.ID), a.Hostname) &&
		(a.State == api.AgentUnspecified || q.wantsState(a.State.String()))
}

// mayRun reports whether the agent has something of the framework, as far as this master knows. Without a framework it
// is true for every agent.
func (c Cluster) mayRun(agent api.AgentID, framework api.FrameworkID) bool {
	return framework == "" || c.Leader == nil || c.Leader.Runs(agent, framework)
}

// agents returns the admitted agents, in no order.
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

// sizes returns the sizes of the admitted agents, in no order.
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

// agent returns everything that is known of an admitted agent.
func (c Cluster) agent(id api.AgentID) Agent {
	a := Agent{Why: unknownWhy, MaybeMore: true}
	if c.Leader != nil {
		a = c.Leader.Agent(id)
		health := c.Leader.Health(id)
		a.Why, a.Ill = health.why(a.Why), health.ills()
	}
	known := c.Registry.Agents[id]
	a.Agent, a.Marks, a.Admitted, a.Maintenance = known.Agent, known.Marks, known.Admitted, known.Maintenance
	a.Agent.Resources, a.Volumes.Booked = known.Total(), known.Generations()
	if !c.Sees.Covers(c.on(id, rights.Object{})) {
		a.Agent.Address = ""
	}
	return a
}
