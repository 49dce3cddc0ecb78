// Package engine is the part that all policies share: who holds what of which agent, who wants what, what limits,
// guarantees, filters and constraints say about it, and the offers that follow. A policy adds who goes first and who
// has to give way.
//
// It is incremental: the cost of Allocate follows what changed since the last call. An agent is looked at again only
// when it has something more to give, a framework only when it may take something more (see internal/books/dirty.go).
// Whether a framework is offered an agent is decided in one place, and explained from there (decider.go, refusals.go).
// It is pure: no clock, lock, goroutine or randomness. One goroutine calls it.
package engine

import (
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/engine/internal/books"
	"github.com/tenderhq/tender/api"
)

// Engine implements the Allocator interface for a policy. It only connects the layers below it. Each of them calls only
// those below it, and knows no more than it needs:
//
//	explainer             puts a decision into words
//	server      asker     offer what is free; ask back what others hold
//	decider               decides whether a member is offered an agent
//	ledger                follows what the engine is told
//	line                  who is next
//	books                 what there is, who holds it and what has changed
type Engine struct {
	books     *books.Books
	line      *line
	ledger    *ledger
	server    *server
	asker     *asker
	explainer *explainer
}

// New makes an engine for the policy. It knows nothing yet.
func New(config allocator.Config, policy Policy) *Engine {
	policy.check()
	r := &ranking{books.New(config, policy.Yields != nil), policy}
	l := &line{ranking: r, all: newOrder(r), few: newOrder(r)}
	d := newDecider(config, r)
	return &Engine{
		books:     r.Books,
		line:      l,
		ledger:    newLedger(config, l),
		server:    &server{decider: d, line: l, resumed: make(map[int32]*books.Resumed)},
		asker:     &asker{decider: d, line: l, given: make(map[*books.Shape]int64)},
		explainer: &explainer{d},
	}
}

// What the engine is told goes into the ledger.

// SetAgent adds an agent or replaces what is known of it.
func (e *Engine) SetAgent(spec allocator.Agent) { e.ledger.setAgent(spec) }

// RemoveAgent forgets the agent and everything that is taken on it.
func (e *Engine) RemoveAgent(id api.AgentID) { e.ledger.removeAgent(id) }

// SetFramework adds a framework or replaces what is known of it.
func (e *Engine) SetFramework(spec allocator.Framework) { e.ledger.setFramework(spec) }

// RemoveFramework forgets the framework and whatever it still holds.
func (e *Engine) RemoveFramework(id api.FrameworkID) { e.ledger.removeFramework(id) }

// Suppress stops offers in the roles; without roles, in all roles of the framework.
func (e *Engine) Suppress(id api.FrameworkID, roles []api.Role) { e.ledger.suppress(id, roles) }

// Revive undoes Suppress and forgets the framework's filters in the roles.
func (e *Engine) Revive(id api.FrameworkID, roles []api.Role) { e.ledger.revive(id, roles) }

// SetDemand replaces what the framework wants in the role.
func (e *Engine) SetDemand(id api.FrameworkID, role api.Role, shapes []api.Shape) {
	e.ledger.stateDemand(id, role, shapes)
}

// SetRole replaces an operator's settings of a role.
func (e *Engine) SetRole(role allocator.Role) { e.ledger.setRole(role) }

// Hold stops offers to roles under a limit, and preemption, while on. (Protocol rule R20.)
func (e *Engine) Hold(on bool) { e.ledger.holdLimited(on) }

// Take books resources that are in use but were not proposed.
func (e *Engine) Take(claim allocator.Claim) { e.ledger.bookClaim(claim) }

// Launch turns part of what an offer held into a task's claim.
func (e *Engine) Launch(claim allocator.Claim) { e.ledger.launch(claim) }

// Return frees what was taken by a proposal, Take or Launch.
func (e *Engine) Return(claim allocator.Claim) { e.ledger.takeBack(claim) }

// Refuse leaves a filter; see allocator.Allocator.
func (e *Engine) Refuse(claim allocator.Claim, until time.Time) { e.ledger.refuse(claim, until) }

// Use says what is used on an agent beyond what was asked for.
func (e *Engine) Use(id api.AgentID, beyond api.Resources) { e.ledger.setUseBeyond(id, beyond) }

// Filters returns how many filters are in force for the frameworks of the principal.
func (e *Engine) Filters(principal string) int { return e.books.FiltersOf[principal] }

// Shares reports the share of each framework and role that holds anything.
func (e *Engine) Shares() allocator.Shares { return e.line.shares() }

// Allocate proposes offers for everything that is free, wanted and allowed now.
func (e *Engine) Allocate(now time.Time) allocator.Allocation {
	e.books.Now = max(e.books.Now, e.books.InstantOf(now))
	e.books.Filters.Expire(e.books)
	if e.books.Dirty.Wants {
		e.books.Dirty.Wants = false
		e.books.KeptOffers.Wanted(e.books.Now)
	}
	inverse := e.books.Keeps.Due(e.books)
	if e.books.Dirty.Clean() && !inverse {
		return allocator.Allocation{Inverse: e.asker.askBackKept()}
	}
	e.line.round++
	e.line.stepBack()
	e.line.settle()
	for again := true; again; again = e.server.metOnTheWay() || len(e.books.Dirty.Agents) > 0 {
		e.server.serveAll()
		e.server.serveFew()
		e.server.servePostponed()
	}
	allocation := allocator.Allocation{Inverse: append(e.asker.askBackKept(), e.asker.preempt()...)}
	allocation.Offers, allocation.Spared = e.server.claims(), e.books.Keeps.Claims()
	return allocation
}

// Wake returns when Allocate would next propose something without another call before.
func (e *Engine) Wake() time.Time {
	next, some := e.books.Filters.Next(e.books)
	if due, ok := e.books.Keeps.Next(); ok && (!some || due < next) {
		next, some = due, true
	}
	if due := e.books.KeptOffers.Wake(); due != 0 && (!some || due < next) {
		next, some = due, true
	}
	if !some {
		return time.Time{}
	}
	return e.books.TimeOf(next)
}
