// Package allocator decides which framework is offered which resources of which agent. It has the interface that every
// policy implements, the registry of names by which a master finds a policy, and the bookkeeping that policies share.
//
// It is pure: no clock, lock, goroutine or randomness of its own. The same calls give the same offers, byte for byte.
// One goroutine calls it.
package allocator

import (
	"time"

	"github.com/tenderhq/tender/api"
)

// Allocator is a policy with its bookkeeping. The master's core tells it what there is and what changes, and asks it to
// allocate once after each batch of events.
//
// The core keeps its own ledger and checks every proposal against it (R25). In the allocator's own books a proposal
// counts as taken at once. Identifiers that the allocator does not know are ignored, so that calls may come in any
// order after a failover.
type Allocator interface {
	// SetAgent adds an agent or replaces what is known of it. Resources that are taken on the agent stay taken.
	SetAgent(Agent)
	// RemoveAgent forgets the agent and everything that is taken on it.
	RemoveAgent(api.AgentID)

	// SetFramework adds a framework or replaces what is known of it. The framework's filters are forgotten when it
	// becomes inactive, and when its constraint, MinOffer, MaxOffer or Revocable changes. What it holds stays taken
	// until it is returned.
	SetFramework(Framework)
	// RemoveFramework forgets the framework. The core has returned what it held before.
	RemoveFramework(api.FrameworkID)
	// Suppress stops offers in the roles; without roles, in all roles of the framework.
	Suppress(api.FrameworkID, []api.Role)
	// Revive undoes Suppress and forgets the framework's filters in the roles.
	Revive(api.FrameworkID, []api.Role)
	// SetDemand replaces what the framework wants in the role. nil: it states no demand, and may be offered anything,
	// as in Mesos. Empty: it wants nothing. The caller has checked the constraints with constraint.Compile. The caller
	// also counts: after launches it tells what is left of the demand, so Launch changes no demand (R38). The
	// framework's filters in the role are forgotten when it had stated no demand, or none with shapes, and when the
	// demand grows by a new shape or a higher count.
	SetDemand(api.FrameworkID, api.Role, []api.Shape)

	// SetRole sets the weight, priority and quota of a role. A role that was never set has weight 1, priority 0 and no
	// quota.
	SetRole(Role)
	// Hold stops, while on, offers to roles that have a limit, and preemption (R20).
	Hold(on bool)

	// Take books resources that are in use but were not proposed by Allocate: those of tasks that an agent reports
	// after a failover, of an executor, or of an operator's claim.
	Take(Claim)
	// Launch turns a part of what an offer held into a task's claim. The amount in use does not change. A policy that
	// preempts learns from it which tasks it could ask back.
	Launch(Claim)
	// Return frees what was taken by a proposal, Take or Launch. What a task or an executor returns is no part of any
	// open offer of its framework. When a task ends, its framework's filters of the agent end too, because the task may
	// have been the reason for them.
	Return(Claim)
	// Refuse follows the Return of resources that a framework has given back itself, and leaves a filter. Until the
	// given time the framework is not offered this agent in this role, as long as the agent has no more for it than
	// when the offer was made. What its demand left out of that offer is refused as well. If nothing of the offer was
	// launched, the filter lasts at least until Config.OfferAgain after the agent was last offered, however early
	// `until` is. A zero `until` says that the framework asked for no filter. A filter is forgotten when the agent's
	// attributes or place change.
	Refuse(claim Claim, until time.Time)
	// Use says how much of an agent is really used beyond what was asked for there, smoothed by the caller (R28): the
	// sum over the agent's executors of what each, with its tasks, uses above its own request. That much less of the
	// agent is offered. It counts towards neither limits nor shares.
	Use(agent api.AgentID, beyond api.Resources)

	// Allocate proposes offers for everything that is free, wanted and allowed now. Its cost depends on what has
	// changed since the last call.
	Allocate(now time.Time) Allocation
	// Wake returns when Allocate would next propose something without any other call before, because a filter ends;
	// zero = never.
	Wake() time.Time

	// Explain returns why the framework is not offered the agent or, if agent is "", what holds the framework back as a
	// whole.
	Explain(api.FrameworkID, api.AgentID, time.Time) Explanation
	// Shares returns the dominant share of each framework and role that holds anything.
	Shares() Shares
}

// Agent is what a policy needs to know of an agent.
type Agent struct {
	ID       api.AgentID
	Hostname string
	// Total is everything that the agent has. Its revocable part is the gap (R28): what the agent's tasks have asked
	// for and leave unused. The gap changes whenever the tasks use more or less, and may become less than what is held
	// of it. It is offered only to frameworks that take revocable resources, and counts towards neither limits,
	// guarantees nor shares.
	Total      api.Resources
	Attributes map[string]string
	Region     string
	Zone       string
	// Offerable is false while the agent is neither RUNNING nor BUSY, or has a mark that forbids offers; then Why says
	// the reason.
	Offerable bool
	Why       string
}

// Framework is what a policy is told of a framework: everything that the framework says of itself. The caller has
// checked its constraint with constraint.Compile.
type Framework struct {
	api.Framework

	Active bool // it is subscribed; an inactive framework is offered nothing
	// Withheld says why the framework is offered nothing for now although it is active; "" = it may be offered
	// something. What it holds, and its filters, stay.
	Withheld string
}

// FilterCounter is implemented by a policy that counts the filters in force of all frameworks of a principal, so that
// the masters can bound them (R34). The masters do not bound the filters of other policies.
type FilterCounter interface{ Filters(principal string) int }

// TakesOther reports whether the two descriptions differ in what the framework accepts in any of its offers. If so,
// what it refused before may suit it now.
func (f Framework) TakesOther(g Framework) bool {
	return f.Constraint != g.Constraint || f.Revocable != g.Revocable || !f.MinOffer.Equal(g.MinOffer) || !f.MaxOffer.Equal(g.MaxOffer)
}

// Role holds an operator's settings of a role.
type Role struct {
	Role      api.Role
	Weight    float64       // above 0; 0 means 1
	Priority  int           // the role with the higher priority goes first
	Guarantee api.Resources // kept for the role; plain amounts, without labels
	Limit     api.Resources // the most that the role may hold; names that are missing are not limited
}

// Claim is resources of one agent that a framework holds in a role.
type Claim struct {
	Framework api.FrameworkID
	Role      api.Role
	Agent     api.AgentID
	Resources api.Resources
	Task      api.TaskID     // only of a task
	Executor  api.ExecutorID // only of an executor; the claim of an offer has neither Task nor Executor
	Since     time.Time      // of a task: when it was launched
	Group     string         // of a task: the Group by which a shape's Spread counts it
}

// Allocation is what one call of Allocate proposes.
type Allocation struct {
	// Offers are to be made. Each counts as taken; the core returns those that it does not make.
	Offers []Claim
	// Inverse are proposals to ask for resources back. The core kills the tasks when their grace is over, and rescinds
	// the offers at once.
	Inverse []Inverse
	// Spared are tasks that were asked back and are no longer needed, because the demand was met by something else that
	// has become free, or no longer exists. Their inverse offers end before those of Inverse begin.
	Spared []Claim
}

// OfferStands is how long a framework has an offer at least, before any of it is asked back for others.
const OfferStands = time.Second

// Inverse is a proposal to ask for something back, for stated demand that can be met in no other way: tasks of lower
// priority (R27), or what frameworks keep in open offers (R42).
type Inverse struct {
	// Victims are the cheapest set of tasks. A claim without a task stands for the open offers of the agent that the
	// framework keeps in the role, and that are older than OfferStands: the core rescinds them.
	Victims []Claim
	For     api.FrameworkID // the framework whose demand it is
	Role    api.Role
	Agent   api.AgentID
}

// Explanation says in sentences for people why there is an offer or none; the most important reason comes first. It
// uses the words of the log: "f1 filtered a1 until 12 s from now".
type Explanation struct {
	Reasons []string
}

// Shares are dominant shares from 0 to 1; they are not divided by weights.
type Shares struct {
	Frameworks map[api.FrameworkID]float64
	Roles      map[api.Role]float64
}
