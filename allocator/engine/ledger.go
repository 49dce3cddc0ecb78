package engine

import (
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/engine/internal/books"
	"github.com/tenderhq/tender/api"
)

// ledger follows what the engine is told: it writes that into the books, and puts the members concerned into the order
// or takes them out.
type ledger struct {
	*line
	again books.Instant // least time between an offer and the same offer again to a member that gave it back untouched
	back  back
}

func newLedger(config allocator.Config, l *line) *ledger {
	again := books.Instant(config.OfferAgain)
	if again <= 0 {
		again = books.Instant(allocator.DefaultOfferAgain)
	}
	return &ledger{line: l, again: again}
}

// bookClaim books resources that are in use but were not proposed.
func (e *ledger) bookClaim(claim allocator.Claim) {
	a, f := e.AgentOf(claim.Agent), e.Frameworks[claim.Framework]
	if a == nil || f == nil || claim.Resources.IsZero() {
		return
	}
	m := e.MemberOf(f, claim.Role)
	a.Hold(m, claim.Resources, false, e.Now)
	e.Counted = e.Kinds.Count(e.Counted, claim.Resources, nil)
	e.Charge(m, claim.Resources, e.Counted, +1)
	if books.Covers(a.Free, claim.Resources) {
		e.SetFree(a, books.Less(a.Free, claim.Resources), nil)
	} else {
		e.Refree(a)
	}
	if !a.Plain && len(a.Filters) > 0 { // another part of what is left may not be hidden by a filter
		e.Dirty.Agent(a)
	}
	e.TouchMember(m)
	e.AddTask(a, m, claim)
	e.CountTask(a, m, claim, +1)
	if claim.Task != "" {
		e.forgive(m)
	}
	e.Loosen()
}

// launch turns part of what an offer held into a task's claim.
func (e *ledger) launch(claim allocator.Claim) {
	a, m := e.Find(claim)
	if m == nil {
		e.bookClaim(claim)
		return
	}
	before := len(a.Offers())
	part, _ := a.LetGo(m, claim.Resources, true)
	e.KeptOffers.Open += int32(len(a.Offers()) - before) // an agent has few offers
	a.BearFruit(m)
	if !part.IsZero() {
		a.Hold(m, part, false, e.Now)
		a.LaunchSeen(m, part)
	}
	if !books.Same(part, claim.Resources) { // it was never offered, but is counted
		missing := claim
		missing.Resources, missing.Task = claim.Resources.Without(part), ""
		e.bookClaim(missing)
	}
	e.PreemptAgain(m)
	if !claim.Resources.IsZero() {
		e.CountTask(a, m, claim, +1)
	}
	e.Counted = e.Kinds.Count(e.Counted, claim.Resources, nil)
	e.launched(a, m, claim.Resources, e.Counted)
	if len(a.Plans) > 0 && !a.HasOffer(m) {
		e.releasePlan(a, m)
	}
	e.forgive(m)
	e.AddTask(a, m, claim)
	e.Dirty.Capped(a, m)
}

// takeBack frees what was taken by a proposal, Take or Launch.
func (e *ledger) takeBack(claim allocator.Claim) {
	a, m := e.Find(claim)
	if m == nil {
		return
	}
	offer := claim.Task == "" && claim.Executor == ""
	before := len(a.Offers())
	back, fruitful := a.LetGo(m, claim.Resources, offer)
	e.Counted = e.Kinds.Count(e.Counted, back, nil)
	if offer && !back.IsZero() {
		e.answered(a, m, back, e.Counted)
		e.untouched(a, m, fruitful)
	}
	if !books.Same(back, claim.Resources) { // of a task that was never launched, or of an older sender that names no task
		rest, _ := a.LetGo(m, claim.Resources.Without(back), !offer)
		back = back.Plus(rest)
		e.Counted = e.Kinds.Count(e.Counted, back, nil)
	}
	e.KeptOffers.Open += int32(len(a.Offers()) - before) // an agent has few offers
	if back.IsZero() {
		return
	}
	if claim.Task != "" {
		e.Filters.Lift(e.Books, a, m.Framework)
	}
	e.RemoveTask(a, m, claim.Task)
	e.CountTask(a, m, claim, -1)
	e.GiveBack(a, m, back, e.Counted)
	e.TouchMember(m)
	e.Loosen()
	e.Dirty.Agent(a)
	e.forgetMember(m)
}

// answered notes that an offer, or a part of one, has come back.
func (e *ledger) answered(a *books.Agent, m *books.Member, back api.Resources, counted books.Amounts) {
	if len(a.Plans) == 0 {
		return
	}
	e.unplan(a, m, back, counted)
	if !a.HasOffer(m) {
		e.releasePlan(a, m)
	}
}

// untouched notes that an offer came back of which nothing was launched.
func (e *ledger) untouched(a *books.Agent, m *books.Member, fruitful bool) {
	e.back = back{}
	if !fruitful {
		e.back = back{a, m}
		e.strike(m)
		e.PreemptLater(m)
	}
}

// takeAllOf returns everything that the member holds on the agent.
func (e *ledger) takeAllOf(a *books.Agent, m *books.Member) {
	e.DropTasks(a, m)
	e.DropCounts(a, m)
	before := len(a.Offers())
	all := a.LetAllGo(m)
	e.KeptOffers.Open += int32(len(a.Offers()) - before) // an agent has few offers
	e.releasePlan(a, m)
	e.Counted = e.Kinds.Count(e.Counted, all, nil)
	e.GiveBack(a, m, all, e.Counted)
	e.TouchMember(m)
}

// holdLimited stops, while on, offers to roles that have a limit, and preemption (R20).
func (e *ledger) holdLimited(on bool) {
	if e.OnHold == on {
		return
	}
	e.OnHold = on
	if !on {
		e.Dirty.Everything(e.Agents)
	}
}

// back is the last offer that came back with nothing launched. Refuse needs it if the framework has given the offer
// back itself.
type back struct {
	agent  *books.Agent
	member *books.Member
}

// refuse leaves a filter.
func (e *ledger) refuse(claim allocator.Claim, until time.Time) {
	a, m := e.Find(claim)
	if m == nil {
		return
	}
	one := books.Filter{Refused: a.RefusedOf(m, claim.Resources)}
	if !until.IsZero() {
		one.Until = e.InstantOf(until)
		m.Struck = false // a framework that says how long it is not interested makes nobody wait
	}
	if again := a.LastAt + e.again; e.back.agent == a && e.back.member == m && again > one.Until {
		one.Until, one.Extended = again, true
	}
	if e.back = (back{}); !claim.Resources.IsZero() && one.Until > e.Now {
		e.Filter(a, m, one)
	}
}

// hidden reports whether a filter hides the agent, given that the member could have `whole` in addition to what this
// turn has given it already.
func (e *decider) hidden(a *books.Agent, m *books.Member, whole api.Resources) bool {
	return len(a.Filters) > 0 && m.Filters > 0 && e.Filtered(a, m, whole.Plus(e.Turn.Proposed(m))) != nil
}

// setUseBeyond says what is used on an agent beyond what was asked for.
func (e *ledger) setUseBeyond(id api.AgentID, beyond api.Resources) {
	a := e.AgentOf(id)
	if a == nil || beyond.IsZero() && a.Beyond.Zero() {
		return
	}
	before := a.Counted.Clone()
	a.Beyond = e.Kinds.Count(a.Beyond, beyond, nil)
	e.SetFree(a, a.Free, nil)
	if !before.Holds(a.Counted) {
		e.Loosen()
		e.Dirty.Agent(a)
	}
}
