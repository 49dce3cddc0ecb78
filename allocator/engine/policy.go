package engine

import (
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/engine/internal/books"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/invariant"
)

// Policy holds what differs between policies: what a share is, who is next, who has to give way, and how that is
// called. Everything else is done by the engine: guarantees come before any order, limits cap, and members that give
// offers back untouched go last for a while.
//
// The functions must depend only on their arguments.
type Policy struct {
	// Share returns how large a share of a cluster with this total somebody has who holds this much. Every policy needs
	// it: shares are shown to people, and of two equal sets of tasks the one with the smaller share is asked to give
	// way.
	Share func(held, total Amounts) float64

	// Next decides who is offered something next: the one with the smallest result, at each level of the tree among the
	// roles, and then among the role's frameworks. Among equals it is the one that has waited longest since its last
	// offer. weight is the weight of the role; that of a framework is 1. The frameworks of a role together stand beside
	// the roles below it, as one of weight 1. A policy has either Next or Less.
	Next func(held, total Amounts, weight float64) float64
	// Rank goes before Next: frameworks in a role of higher rank go before all others. priority is the role's own or,
	// if it has none, its parent's. Default: all roles have the same rank.
	Rank func(role api.Role, priority int) int

	// Less orders all frameworks in their roles, in place of Next and Rank: what the agents have goes to the first in
	// the order, as much of it as that one wants, then to the second, and so on. It must be a strict order. If neither
	// of two goes before the other, they take turns.
	Less func(a, b Standing) bool

	// Yields reports whether the task may be asked back for the stated demand of somebody who can have it in no other
	// way. Default: no task ever is.
	Yields func(t Task, to Standing) bool
	// YieldsSooner orders the tasks that may be asked back: negative if a is asked back before b. Among sets of tasks
	// that are enough, the engine chooses the one whose last task in this order comes first, then the one with the
	// fewest tasks, then the one with the smallest share. A policy with Yields needs it.
	YieldsSooner func(a, b Task) int

	// Because says in the policy's words why the first goes before the other, for explanations such as "its last offer
	// went to f1 in role eng: it was there first". Both are frameworks in their roles, or roles at the level of the
	// tree where their paths part. Default: a sentence that the policy puts the first before the other.
	Because func(first, other Standing) string
}

// Amounts are sums by kind of resource, in thousandths; ranges and sets are counted. A kind beyond the end has an
// amount of zero. At returns the amount of a kind.
type Amounts = books.Amounts

// Standing describes a framework in one of its roles, or a role, when two are compared.
type Standing struct {
	Framework api.FrameworkID // "" = it describes the role
	Name      string          // of the framework
	Role      api.Role
	Priority  int     // the one that applies: its own, or else its parent's
	Weight    float64 // weight of the role
	Share     float64 // share of what it holds
	Joined    uint64  // the one that was known first has the smaller number
}

// Task is a task that may be asked back.
type Task struct {
	Framework api.FrameworkID
	Role      api.Role
	Priority  int       // the priority that applies
	Joined    uint64    // of the framework in the role: the one that was known first has the smaller number
	Since     time.Time // when it was launched
}

// check panics if a policy lacks a function that it needs.
func (p *Policy) check() {
	invariant.Check(p.Share != nil, "a policy needs a Share; fairshare.DominantShare is one")
	invariant.Check((p.Next == nil) != (p.Less == nil), "a policy has Next or Less, and not both")
	invariant.Check(p.Yields == nil || p.YieldsSooner != nil, "a policy with Yields needs YieldsSooner")
}

// ranking compares members and roles by the policy.
type ranking struct {
	*books.Books
	policy Policy
}

// shareOf returns the share of the cluster of somebody who holds this much, by the policy.
func (e *ranking) shareOf(held Amounts) float64 { return e.policy.Share(held, e.Total) }

// standing returns the Standing of a framework in one of its roles.
func (e *ranking) standing(m *books.Member) Standing {
	return Standing{m.Framework.Spec.ID, m.Framework.Spec.Name, m.Role.Name, m.Role.PriorityThatCounts(), m.Role.Weight, e.shareOf(m.Taken), m.Joined}
}

// standingOf returns the Standing of a role, as it applies to a member below it.
func (e *ranking) standingOf(r *books.Role, m *books.Member) Standing {
	return Standing{Role: r.Name, Priority: m.Role.PriorityThatCounts(), Weight: r.Weight, Share: e.shareOf(r.Taken)}
}

// taskOf returns what the policy is told of a task.
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

// because returns why the first goes before the other, in the policy's words.
func (e *ranking) because(first, other Standing) string {
	if e.policy.Because == nil {
		return "the policy puts it first"
	}
	return e.policy.Because(first, other)
}

// nextRole returns where the role stands among its siblings.
func (e *ranking) nextRole(r *books.Role) float64 { return e.policy.Next(r.Taken, e.Total, r.Weight) }

// nextLeaf returns where the members of exactly this role stand. Together they stand beside the roles below it, as one
// leaf of weight 1.
func (e *ranking) nextLeaf(r *books.Role) float64 {
	if len(r.Children) == 0 {
		return 0 // there is nothing to compare it with
	}
	return e.policy.Next(e.OwnOf(r), e.Total, 1)
}

func (e *ranking) memberKey(m *books.Member) books.Entry {
	return books.Entry{Share: e.policy.Next(m.Taken, e.Total, 1), Served: m.Served, ID: m.Number}
}

// shares returns the share of each framework and role that holds anything.
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
