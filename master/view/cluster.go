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
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/master/registry/spent"
)

// Cluster is what can be read. It costs nothing to make, and is as fresh as what it is made of. The leader's is read in
// the leader's loop.
type Cluster struct {
	Registry *registry.State
	Leader   Leader // what the leader knows beyond the registry; nil: this master follows
	// Sees is what the caller may see of frameworks, their tasks and offers, and of agents. Other frameworks, tasks and
	// offers do not exist for the caller. Of other agents the caller sees everything except their addresses.
	Sees rights.Scope
}

// seesFramework reports whether the caller may see the framework.
func (c Cluster) seesFramework(id api.FrameworkID) bool {
	known := c.Registry.Frameworks[id].Framework
	return c.Sees.CoversAny(c.object(id, ""), known.Roles)
}

// object returns something of a framework, in a role, as the object of a grant.
func (c Cluster) object(id api.FrameworkID, role api.Role) rights.Object {
	known := c.Registry.Frameworks[id].Framework
	return rights.Object{Framework: id, Name: known.Name, Principal: known.Principal, Role: role}
}

// taskObject returns a task of a framework as the object of a grant.
func (c Cluster) taskObject(id api.FrameworkID, role api.Role, owner string) rights.Object {
	object := c.object(id, role)
	object.Owner = owner
	return object
}

// on returns the object with the agent that it is on.
func (c Cluster) on(agent api.AgentID, object rights.Object) rights.Object {
	object.Agent, object.Hostname = agent, c.Registry.Agents[agent].Agent.Hostname
	return object
}

// The state that a follower shows where only the leader knows it, and the reason.
const (
	unknownState = "unknown"
	unknownWhy   = "as the registry has it; only the leader knows more"
)

// Leader is what the leader knows beyond the registry. What it returns must not be changed. A sequence has no order
// unless its comment says so. It gives only what a list selects by; the rest is read only for the rows that are shown.
type Leader interface {
	Agents
	Frameworks
	Tasks
	Offers
	// Executors returns the executors on agents, and those that launches will start: of this agent at least, or of all
	// for "".
	Executors(on api.AgentID) iter.Seq[ExecutorBrief]
	// Executor returns false when the executor is no more.
	Executor(ExecutorBrief) (Executor, bool)
	// Operations returns the operations that wait for the quorum, numbered; with over also those whose result is
	// remembered.
	Operations(over bool) iter.Seq2[int, Operation]
	Policy
	Figures() Figures
	// Usage returns who has used how much, with what the registry does not have yet.
	Usage(now time.Time) spent.Book
}

// Agents is what the leader knows about agents.
type Agents interface {
	Agents() iter.Seq[AgentBrief]
	// StateOf returns the state of an admitted agent.
	StateOf(api.AgentID) api.AgentState
	Sizes() iter.Seq[AgentSize]
	// Reserved returns the scalars that are reserved on all agents together, one for each role and name.
	Reserved() iter.Seq[api.Resource]
	// Agent returns everything about an admitted agent that the registry does not have.
	Agent(api.AgentID) Agent
	Health(api.AgentID) Health
	// LostAgents returns the agents that the registry does not know because it was restored or recovered, with the
	// tasks that frameworks have there, in order. It also returns since when they are missing.
	LostAgents() (map[api.AgentID][]api.TaskRef, time.Time)
	// Unreported returns which agents have not reported to this leader: of all, or whether this one has not.
	Unreported(on api.AgentID) Unreported
	// Runs reports whether the agent has something of the framework.
	Runs(api.AgentID, api.FrameworkID) bool
	// Withheld says why the policy may not offer the agent; "" when it may.
	Withheld(api.AgentID) string
	// Allowed returns a function that reports whether constraints allow tasks of the role on an agent. Empty
	// constraints allow every agent.
	Allowed(role api.Role, constraints ...string) func(api.AgentID) bool
}

// Frameworks is what the leader knows about frameworks: those of the registry that are not removed, and removed ones of
// which something still runs.
type Frameworks interface {
	Frameworks() iter.Seq[FrameworkBrief]
	// Framework returns everything about a framework except what the registry has. It returns false when the leader has
	// no framework with that ID.
	Framework(api.FrameworkID) (Framework, bool)
	// Holdings returns what frameworks use and are offered, one for each framework and role.
	Holdings() iter.Seq[Holding]
	// Decisions returns the latest decisions about the framework, the newest last.
	Decisions(api.FrameworkID) []Decision
}

// Tasks is what the leader knows about tasks.
type Tasks interface {
	// Tasks returns the tasks of the framework, or of all frameworks; one for each ID.
	Tasks(of api.FrameworkID) iter.Seq[TaskBrief]
	// TaskRefs returns the references of the tasks of the framework, or of all, or of those of them on the agent.
	TaskRefs(of api.FrameworkID, on api.AgentID) iter.Seq[api.TaskRef]
	Task(api.TaskRef) Task
	// FindTask returns the task with that ID, unless its end is acknowledged.
	FindTask(api.TaskRef) (TaskBrief, bool)
	// TaskStates returns the states of all tasks on agents, including the later launch of an ID that was launched
	// twice.
	TaskStates() iter.Seq[api.TaskState]
	// Untold returns the tasks that only their frameworks have named, because their agents are not back.
	Untold() iter.Seq2[api.AgentID, api.TaskRef]
	// FindUntold returns the agent of a task that only its framework has named. The registry may not know the agent.
	FindUntold(api.TaskRef) (api.AgentID, bool)
	// FindEnded returns what is remembered of a task that has ended on the agent; nil: nothing.
	FindEnded(api.AgentID, api.TaskRef) *protocol.TaskStub
	// Apart returns the tasks that agents report and no leader has launched there, in the same order (R40).
	Apart() iter.Seq2[api.AgentID, *protocol.TaskStub]
	// Ended returns the tasks that have ended and are remembered, agent by agent in the order of their IDs. Those that
	// were DROPPED come behind all others, because their IDs may have been launched again: the first task of an ID says
	// how it has ended.
	Ended() iter.Seq2[api.AgentID, *protocol.TaskStub]
}

// Offers is what the leader knows about offers.
type Offers interface {
	Offers() iter.Seq[OfferBrief]
	Offer(api.OfferID) Offer
	IsOpen(api.OfferID) bool
	// OffersOf returns the open offers of the agent, the oldest first.
	OffersOf(api.AgentID) []Offer
}

// Policy is what the allocator says.
type Policy interface {
	Shares() allocator.Shares
	// Reasons says why the framework is not offered the agent or, without an agent, why it is offered nothing more.
	Reasons(api.FrameworkID, api.AgentID, time.Time) []string
	// Hold returns the wait of roles under a limit after a failover; false when there is none.
	Hold() (Hold, bool)
}

// Hold says for what roles under a limit wait after a failover.
type Hold struct {
	Agents int // agents that are not back
	Until  time.Time
}
