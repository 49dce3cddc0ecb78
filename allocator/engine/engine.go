package engine

import (
	"time"

	"github.com/tenderhq/tender/allocator"
)

// Engine fills the Allocator interface for a policy. It only connects the floors below it, of which each calls
// downwards alone and knows no more than it needs:
//
//	explainer             puts a decision into words
//	server      asker     offer what is free; ask back what others hold
//	decider               decides whether a member is offered an agent
//	ledger                follows what the engine is told
//	line                  who is next
//	books                 what there is, who holds it and what has changed
type Engine struct {
	*ledger
	server    *server
	asker     *asker
	explainer *explainer
}

// New makes an engine of the policy that knows nothing yet.
func New(config allocator.Config, policy Policy) *Engine {
	policy.check()
	r := &ranking{newBooks(config, policy.Yields != nil), policy}
	l := newLine(r)
	d := newDecider(config, r)
	return &Engine{
		ledger:    newLedger(config, l),
		server:    &server{decider: d, line: l, resumed: make(map[int32]*resumed)},
		asker:     &asker{decider: d, line: l, given: make(map[*shape]int64)},
		explainer: &explainer{d},
	}
}

// Allocate proposes offers for all that is free, wanted and allowed now.
func (e *Engine) Allocate(now time.Time) allocator.Allocation {
	e.now = max(e.now, e.instantOf(now))
	e.filters.expire(e.books)
	if e.dirty.wants {
		e.dirty.wants = false
		e.keptOffers.wanted(e.now)
	}
	inverse := e.keeps.due(e.books)
	if e.dirty.clean() && !inverse {
		return allocator.Allocation{Inverse: e.asker.askBackKept()}
	}
	e.round++
	e.stepBack()
	e.settle()
	for again := true; again; again = e.server.metOnTheWay() || len(e.dirty.agents) > 0 {
		e.server.serveAll()
		e.server.serveFew()
		e.server.servePostponed()
	}
	allocation := allocator.Allocation{Inverse: append(e.asker.askBackKept(), e.asker.preempt()...)}
	allocation.Offers, allocation.Spared = e.server.claims(), e.keeps.claims()
	return allocation
}

// Wake is the next moment at which Allocate would propose something by itself.
func (e *Engine) Wake() time.Time {
	next, some := e.filters.next(e.books)
	if due, ok := e.keeps.next(); ok && (!some || due < next) {
		next, some = due, true
	}
	if due := e.keptOffers.wake(); due != 0 && (!some || due < next) {
		next, some = due, true
	}
	if !some {
		return time.Time{}
	}
	return e.timeOf(next)
}
