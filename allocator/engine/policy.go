package engine

import (
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/engine/internal/books"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/invariant"
)

// Policy is what one policy decides otherwise than another: what a share is, who is next, who has to give
// way, and what all that is called. Everything else is the engine's: guarantees go before any order, limits
// cap, and who gives offers back untouched goes last for a while.
//
// Its functions depend on nothing but what they are given.
type Policy struct {
	// Share is how large a part of a cluster with so much in all somebody has who holds so much. Every
	// policy has one: people are shown it, and of two sets of tasks the one with the smaller share is
	// asked to give way.
	Share func(held, total Amounts) float64

	// Next says who is offered something next: down the tree of roles, at each level the role, and then
	// among its frameworks the one, for whom it is smallest; of equals the one that waits longest since
	// its last offer. weight is that of the role; a framework's is 1. The frameworks of a role stand
	// beside the roles below it as one of weight 1. A policy has this one or Less.
	Next func(held, total Amounts, weight float64) float64
	// Rank goes before Next: who is in a role of higher rank goes before all others. A role without a
	// priority has its parent's. Default: all have the same.
	Rank func(role api.Role, priority int) int

	// Less is an order of all frameworks in their roles in place of Next and Rank: whatever the agents
	// have goes to whom it puts first, as much of it as that one wants, then to the next. It is a strict
	// order. Where neither of two goes before the other they take turns.
	Less func(a, b Standing) bool

	// Yields says who gives way: whether the task may be asked back for stated demand of somebody who
	// can have it in no other way. Default: nobody ever does.
	Yields func(t Task, to Standing) bool
	// YieldsSooner orders the tasks that may be asked back: negative when a is asked before b. Among sets
	// of tasks that are enough that one is asked whose last is asked soonest, then the one with the fewest
	// tasks, then the one with the smallest share. A policy with Yields has it.
	YieldsSooner func(a, b Task) int

	// Because says in the policy's words why the first goes before the other, for explanations such as
	// "its last offer went to f1 in role eng: it was there first". Both are frameworks in their roles, or
	// the roles at the level of the tree where their ways part. Default: that the policy puts it first.
	Because func(first, other Standing) string
}

// Amounts are sums by kind of resource, in thousandths; ranges and sets are counted. A kind beyond the end is zero:
// At says how much there is of one.
type Amounts = books.Amounts

// Standing is where somebody stands: a framework in one of its roles, or a role.
type Standing struct {
	Framework api.FrameworkID // "" = the role itself
	Name      string          // of the framework
	Role      api.Role
	Priority  int     // the one that counts: a role without one has its parent's
	Weight    float64 // of the role
	Share     float64 // of what is held
	Joined    uint64  // who was known first has the smaller number
}

// Task is a task that may be asked back.
type Task struct {
	Framework api.FrameworkID
	Role      api.Role
	Priority  int       // the one that counts
	Joined    uint64    // of the framework in the role: who was known first has the smaller number
	Since     time.Time // its start
}

// check stops the program of whoever wrote a policy without what it needs.
func (p *Policy) check() {
	invariant.Check(p.Share != nil, "a policy needs a Share; fairshare.DominantShare is one")
	invariant.Check((p.Next == nil) != (p.Less == nil), "a policy has Next or Less, and not both")
	invariant.Check(p.Yields == nil || p.YieldsSooner != nil, "a policy with Yields needs YieldsSooner")
}

// ranking compares members and roles as the policy does.
type ranking struct {
	*books.Books
	policy Policy
}

// shareOf returns the share of the cluster that somebody has who holds so much, as the policy counts it.
func (e *ranking) shareOf(held Amounts) float64 { return e.policy.Share(held, e.Total) }

// standing is that of a framework in one of its roles.
func (e *ranking) standing(m *books.Member) Standing {
	return Standing{m.Framework.Spec.ID, m.Framework.Spec.Name, m.Role.Name, m.Role.PriorityThatCounts(), m.Role.Weight, e.shareOf(m.Taken), m.Joined}
}

// standingOf is that of a role, as it counts for a member below it.
func (e *ranking) standingOf(r *books.Role, m *books.Member) Standing {
	return Standing{Role: r.Name, Priority: m.Role.PriorityThatCounts(), Weight: r.Weight, Share: e.shareOf(r.Taken)}
}

// taskOf is what the policy is told of a task.
func taskOf(t *books.Task) Task {
	return Task{t.Claim.Framework, t.Member.Role.Name, t.Member.Role.PriorityThatCounts(), t.Member.Joined, t.Claim.Since}
}

// rankOf returns the rank that the policy gives to the role.
func (e *ranking) rankOf(r *books.Role) int {
	if e.policy.Rank == nil {
		return 0
	}
	return e.policy.Rank(r.Name, r.PriorityThatCounts())
}

// because is why the first goes before the other, in the policy's words.
func (e *ranking) because(first, other Standing) string {
	if e.policy.Because == nil {
		return "the policy puts it first"
	}
	return e.policy.Because(first, other)
}

// nextRole is where the role stands among those beside it.
func (e *ranking) nextRole(r *books.Role) float64 { return e.policy.Next(r.Taken, e.Total, r.Weight) }

// nextLeaf is where the members of exactly this role stand, who are beside the roles below it as one
// leaf of weight 1.
func (e *ranking) nextLeaf(r *books.Role) float64 {
	if len(r.Children) == 0 {
		return 0 // it stands alone: nothing to compare with
	}
	return e.policy.Next(e.OwnOf(r), e.Total, 1)
}

func (e *ranking) memberKey(m *books.Member) books.Entry {
	return books.Entry{Share: e.policy.Next(m.Taken, e.Total, 1), Served: m.Served, ID: m.Number}
}

// shares reports the share of each framework and role that holds anything.
func (e *ranking) shares() allocator.Shares {
	shares := allocator.Shares{Frameworks: map[api.FrameworkID]float64{}, Roles: map[api.Role]float64{}}
	// order: irrelevant because it goes into a map
	for id, f := range e.Frameworks {
		if share := e.shareOf(f.Taken); share > 0 {
			shares.Frameworks[id] = share
		}
	}
	// order: irrelevant because it goes into a map
	for name, r := range e.Roles {
		if share := e.shareOf(r.Taken); share > 0 {
			shares.Roles[name] = share
		}
	}
	return shares
}
