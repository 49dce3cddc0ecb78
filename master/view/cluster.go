// Package view has the reads: lists, what is known of one agent, framework, task, offer or role, which object a name
// means, why a framework is not offered more, and the figures for metrics. It decides nothing and changes nothing.
//
// Every master reads by the same code. The leader reads what its core knows. A follower has only the registry, so what
// only the leader knows stays empty in its pages, and they say so.
package view

import (
	"iter"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/rights"
	"github.com/tenderhq/tender/master/registry"
)

// Cluster is what can be read. It costs nothing to make, and is as fresh as what it is made of: whoever reads the
// leader's does so in the leader's loop.
type Cluster struct {
	Registry *registry.State
	Leader   Leader // what the leader knows beside the registry; nil: this master follows
	// Sees is what whoever reads may see of frameworks, their tasks and offers, and of agents. What it does not cover is
	// not there for him; of agents he sees all but where they are reached.
	Sees rights.Scope
}

// seesFramework says whether whoever reads sees the framework.
func (c Cluster) seesFramework(id api.FrameworkID) bool {
	known := c.Registry.Frameworks[id].Framework
	return c.Sees.CoversAny(c.object(id, ""), known.Roles)
}

// object is something of a framework, in a role, as grants name it.
func (c Cluster) object(id api.FrameworkID, role api.Role) rights.Object {
	known := c.Registry.Frameworks[id].Framework
	return rights.Object{Framework: id, Name: known.Name, Principal: known.Principal, Role: role}
}

// on is the object on an agent.
func (c Cluster) on(agent api.AgentID, object rights.Object) rights.Object {
	object.Agent, object.Hostname = agent, c.Registry.Agents[agent].Agent.Hostname
	return object
}

// What a follower says of states, and why.
const (
	unknownState = "unknown"
	unknownWhy   = "as the registry has it; only the leader knows more"
)

// Leader is what the leader knows beside the registry. What it hands out is not to be changed. A sequence has no order
// unless it says so, and gives only what a list selects by; the rest is asked for those rows that are shown.
type Leader interface {
	Agents
	Frameworks
	Tasks
	Offers
	Policy
	Figures() Figures
}

// Agents is what the leader knows of agents.
type Agents interface {
	Agents() iter.Seq[AgentBrief]
	Sizes() iter.Seq[AgentSize]
	// Agent adds to an admitted agent all that the registry does not have.
	Agent(api.AgentID) Agent
	Health(api.AgentID) Health
	// Standing is what watchers are told of the agent, except its marks.
	Standing(api.AgentID) AgentStanding
	// LostAgents are those that the registry does not know, as it was restored or recovered, with the tasks that
	// frameworks have there, in order; and since when that is so.
	LostAgents() (map[api.AgentID][]api.TaskRef, time.Time)
	// Runs says whether the agent has something of the framework.
	Runs(api.AgentID, api.FrameworkID) bool
	// Withheld is why the policy may not offer the agent, "" when it may.
	Withheld(api.AgentID) string
	// Allowed says of agents whether constraints let tasks of the role run there. Empty ones let everything.
	Allowed(role api.Role, constraints ...string) func(api.AgentID) bool
}

// Frameworks is what the leader knows of frameworks: those of the registry that are not removed, and those that were
// removed and of which something still runs.
type Frameworks interface {
	Frameworks() iter.Seq[FrameworkBrief]
	// Framework tells of one all but what the registry has and how many tasks it has; false when the leader has none of
	// that ID.
	Framework(api.FrameworkID) (Framework, bool)
	// TasksOf counts the framework's tasks that hold resources.
	TasksOf(api.FrameworkID) int
	// Holdings are what frameworks use and are offered, each in each of its roles.
	Holdings() iter.Seq[Holding]
	// Decisions are the latest about the framework, the newest last.
	Decisions(api.FrameworkID) []Decision
}

// Tasks is what the leader knows of tasks.
type Tasks interface {
	// Tasks are those of the framework, or of all; one for each ID.
	Tasks(of api.FrameworkID) iter.Seq[TaskBrief]
	Task(api.TaskRef) Task
	// FindTask is the task of that ID, unless it has ended and is settled.
	FindTask(api.TaskRef) (TaskBrief, bool)
	// TaskStates are those of all tasks on agents, also of the later launch of an ID that was launched twice.
	TaskStates() iter.Seq[api.TaskState]
	// Untold are the tasks that only their frameworks know of, as their agents are not back.
	Untold() iter.Seq2[api.AgentID, api.TaskRef]
	// Apart are the tasks that agents report and no leader has launched there, in the same order (R40).
	Apart() iter.Seq2[api.AgentID, *protocol.TaskStub]
	// Ended are the tasks that have ended and are remembered, agent by agent in the order of their IDs. Those that were
	// DROPPED come behind all others, as their IDs may have been launched again: the first of an ID says how it has ended.
	Ended() iter.Seq2[api.AgentID, *protocol.TaskStub]
}

// Offers is what the leader knows of offers.
type Offers interface {
	Offers() iter.Seq[OfferBrief]
	Offer(api.OfferID) Offer
	// OffersOf are the open offers of the agent, the oldest first.
	OffersOf(api.AgentID) []Offer
}

// Policy is what the allocator says.
type Policy interface {
	Shares() allocator.Shares
	// Reasons say why the framework is not offered the agent or, without one, more at all.
	Reasons(api.FrameworkID, api.AgentID, time.Time) []string
	// Hold is the wait of roles under a limit after a failover; false when it is over.
	Hold() (Hold, bool)
}

// Hold says for what roles under a limit wait after a failover.
type Hold struct {
	Agents int // that are not back
	Until  time.Time
}
