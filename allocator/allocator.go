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

// Allocator is a policy with its books. The master's core tells it what there is
// and what changes, then asks it to allocate once after each batch of events.
//
// The core keeps the ledger and checks every proposal (R25); what an allocator
// proposes counts in its own books as taken at once. Identifiers that it does not
// know are ignored, so that calls may come in any order after a failover.
type Allocator interface {
	// SetAgent adds an agent or replaces what is known of it. What is taken on it stays.
	SetAgent(Agent)
	// RemoveAgent forgets the agent and all that is taken on it.
	RemoveAgent(api.AgentID)

	// SetFramework adds a framework or replaces what is known of it. Going inactive
	// forgets its filters, as does another constraint, MinOffer, MaxOffer or Revocable;
	// what it holds stays until it is returned.
	SetFramework(Framework)
	// RemoveFramework forgets the framework. The core returns what it held first.
	RemoveFramework(api.FrameworkID)
	// Suppress stops offers for the roles; none named = all of its roles.
	Suppress(api.FrameworkID, []api.Role)
	// Revive undoes Suppress and forgets the framework's filters in the roles.
	Revive(api.FrameworkID, []api.Role)
	// SetDemand replaces what the framework wants in the role. nil = it states no
	// demand (as in Mesos, it may be offered anything); empty = it wants nothing.
	// Constraints have been checked with constraint.Compile by the caller. The caller
	// counts: after launches it tells what is left, so Launch changes no demand (R38).
	// A demand that was none (of either kind) or that grows, by a new shape or a higher
	// count, forgets the framework's filters in the role.
	SetDemand(api.FrameworkID, api.Role, []api.Shape)

	// SetRole replaces weight, priority and quota of a role. A role that was never
	// set has weight 1, priority 0 and no quota.
	SetRole(Role)
	// Hold (R20) stops offers to roles under a limit, and preemption, while on.
	Hold(on bool)

	// Take books resources that are in use but were not proposed by Allocate: tasks
	// that an agent reports after a failover, an executor, an operator's claim.
	Take(Claim)
	// Launch turns part of what an offer held into a task's claim. The amount in use
	// does not change; a policy that preempts learns whom it could ask.
	Launch(Claim)
	// Return frees what was taken by a proposal, Take or Launch. What a task or an executor
	// returns is no part of an offer that its framework has open. Where a task ends, its
	// framework's filters of the agent end: the task may have been the reason.
	Return(Claim)
	// Refuse follows the Return of what a framework gave back itself, and leaves a filter:
	// until then the framework is not offered this agent in this role, while the agent has
	// no more for it than when the offer was made; what its demand left out of the offer is
	// refused with it. If nothing of the offer was launched, that holds for as long as
	// Config.OfferAgain after the agent was offered last at least, however early until is; zero
	// says that the framework asked for no filter. A filter is forgotten when the agent's
	// attributes or place change.
	Refuse(claim Claim, until time.Time)
	// Use says what is really used on an agent beyond what was asked for there, smoothed
	// by the caller (R28): the sum over its executors of what each, with its tasks, uses
	// above its own request. So much less of the agent is offered; it counts in neither
	// limits nor shares.
	Use(agent api.AgentID, beyond api.Resources)

	// Allocate proposes offers for all that is free, wanted and allowed now. Its cost
	// follows what changed since the last call.
	Allocate(now time.Time) Allocation
	// Wake is the next moment at which Allocate would propose something without any
	// other call before (a filter ends); zero = never.
	Wake() time.Time

	// Explain says why the framework is not offered the agent, or, with agent "",
	// what holds the framework back as a whole.
	Explain(api.FrameworkID, api.AgentID, time.Time) Explanation
	// Shares reports the dominant share of each framework and role that holds anything.
	Shares() Shares
}

// Agent is what a policy needs to know of an agent.
type Agent struct {
	ID       api.AgentID
	Hostname string
	// Total is what it has. What of it is revocable is the gap (R28): what its tasks asked
	// for and leave unused. It comes and goes with every change of their use, may be less
	// than what is held of it, is offered only to who takes revocable resources, and counts
	// in neither limits, guarantees nor shares.
	Total      api.Resources
	Attributes map[string]string
	Region     string
	Zone       string
	// Offerable is false while the agent is not RUNNING or BUSY, or is marked; Why says so.
	Offerable bool
	Why       string
}

// Framework is what a policy is told of a framework: all that it says of itself, its constraint
// checked with constraint.Compile by the caller.
type Framework struct {
	api.Framework

	Active bool // subscribed; an inactive one is offered nothing
	// Withheld is why it is offered nothing for now though it is active; "" = it is offered what it may have. What it
	// holds and its filters stay.
	Withheld string
}

// FilterCounter is a policy that counts the filters which are in force for all frameworks of a principal, so that masters
// can bound them (R34). Those of a policy that does not are its own affair.
type FilterCounter interface{ Filters(principal string) int }

// TakesOther reports whether what the framework says of all its offers is something else in the
// other description: what it refused before may suit it then.
func (f Framework) TakesOther(g Framework) bool {
	return f.Constraint != g.Constraint || f.Revocable != g.Revocable || !f.MinOffer.Equal(g.MinOffer) || !f.MaxOffer.Equal(g.MaxOffer)
}

// Role is what an operator says of a role.
type Role struct {
	Role      api.Role
	Weight    float64       // > 0; 0 = 1
	Priority  int           // the higher the sooner
	Guarantee api.Resources // held back for it; plain, without labels
	Limit     api.Resources // never more than that; a name that is missing is not limited
}

// Claim is resources of one agent that a framework holds in a role.
type Claim struct {
	Framework api.FrameworkID
	Role      api.Role
	Agent     api.AgentID
	Resources api.Resources
	Task      api.TaskID     // of a task
	Executor  api.ExecutorID // of an executor; an offer's claim has neither
	Since     time.Time      // of a task: when it was launched
	Group     string         // of a task: a shape's Spread counts those of its own group
}

// Allocation is what one run proposes.
type Allocation struct {
	// Offers to make. Each is booked as taken; what the core drops, it returns.
	Offers []Claim
	// Inverse asks for resources back; the core kills the tasks when the grace ends, and
	// rescinds the offers at once.
	Inverse []Inverse
	// Spared are tasks that were asked back and are needed no more: the demand was met
	// by something else that came free, or is gone. Their inverse offers end, before those of
	// Inverse begin.
	Spared []Claim
}

// OfferStands is how long an offer is its framework's at least: nothing of it is asked back for others before.
const OfferStands = time.Second

// Inverse is a proposal to ask back, for stated demand that can be met in no other way, tasks of lower
// priority (R27), or what is kept in open offers (R42).
type Inverse struct {
	// Victims are the cheapest set of tasks. A claim without a task is what the framework keeps in open offers
	// of the agent in the role that have stood for OfferStands: the core rescinds them.
	Victims []Claim
	For     api.FrameworkID // whose demand it is
	Role    api.Role
	Agent   api.AgentID
}

// Explanation is why there is (not) an offer, in sentences for people, the
// weightiest first. The words are those of the log: "f1 filtered a1 until 12 s from now".
type Explanation struct {
	Reasons []string
}

// Shares are dominant shares, each from 0 to 1, divided by nothing.
type Shares struct {
	Frameworks map[api.FrameworkID]float64
	Roles      map[api.Role]float64
}
