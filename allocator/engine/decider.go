package engine

import (
	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/engine/internal/books"
	"github.com/tenderhq/tender/api"
)

// decider decides whether a member is offered an agent, and what of it. It changes nothing in the books, except what it
// notes for itself during a turn.
type decider struct {
	*ranking
	least    []least   // the amounts that are worth an offer to a framework without a MinOffer of its own
	decision decision  // the last decision
	admitted admission // what a shape may take of an agent that was put by for it
	putBy    putBy     // for whom the present agent is put by
	number   uint64    // number of the turn
}

// least is an amount of one kind that makes an offer worth making.
type least struct {
	kind   int
	amount int64
	words  string
}

func newDecider(config allocator.Config, r *ranking) *decider {
	minimum := config.MinOffer
	if len(minimum) == 0 {
		minimum = []allocator.MinOffer{{Name: "cpus", Milli: 10}, {Name: "mem", Milli: 32_000}}
	}
	d := &decider{ranking: r}
	for _, m := range minimum {
		words := m.Name + ":" + api.Milli(m.Milli).String()
		d.least = append(d.least, least{r.Kinds.Number(m.Name), m.Milli, words})
	}
	return d
}

// question asks what a member is offered of an agent.
type question struct {
	member *books.Member
	agent  *books.Agent
	// owed limits the answer to what the member's roles are guaranteed and lack.
	owed bool
	// careful checks after each reduction whether enough is left, so that the first reason is named that rules the
	// agent out by itself. What can never be, such as a task larger than the limit of its role, is thus named before
	// what will pass, such as a guarantee that is not met yet. It is set for explanations.
	careful bool
}

// decision is the answer to a question. Finding it changes nothing that the engine knows; remember stores what later
// rounds need of it. It is valid until the next question is asked.
type decision struct {
	why  refusal
	owed bool
	// offer is what the member is offered. With a refusal it is what was left, if that was too little.
	offer api.Resources
	// whole is what the member could be offered without the caps of its demand and of a guarantee's lack. Filters are
	// compared with it.
	whole   api.Resources
	plan    books.Planned  // for what part of the member's demand the offer is sized
	cutBy   refusal        // the bound that was applied last
	blocked bool           // the offer is smaller because of a guarantee
	rooms   []room         // rooms under the limits that bound the offer
	full    []*books.Shape // shapes whose place on this agent is full
	putBy   []*books.Shape // spread shapes, which wait until all agents were looked at
}

// decide answers a question in three steps: may the member have anything of the agent; what do limits, MaxOffer and
// guarantees leave of that; and is that what the member wants?
func (e *decider) decide(q question) *decision {
	d := e.available(q)
	if d.why == granted {
		e.cutToWanted(q, d)
	}
	if d.cutBy != granted && (d.why == nothingFits || d.why == tooLittle) {
		d.why = d.cutBy
	}
	return d
}

// available returns what the member may have of the agent, whatever it wants.
func (e *decider) available(q question) *decision {
	m, a, d := q.member, q.agent, &e.decision
	d.why, d.owed, d.cutBy, d.blocked = granted, q.owed, granted, false
	d.rooms, d.full, d.putBy = d.rooms[:0], d.full[:0], d.putBy[:0] // offer, whole and plan are set where they matter
	switch {
	case !a.Offerable:
		d.why = isAway
	case e.OnHold && m.Role.Limited:
		d.why = isHeld
	case m.Gate != nil && !e.Passes(m.Gate, a):
		d.why = failsConstraint
	case q.careful && a.IsKeptFor(m):
		d.why = isFreed
	default:
		if d.offer, d.why = e.usable(m, a); d.why == granted {
			e.cutToBounds(q, d)
		}
	}
	return d
}

// remember notes what later rounds need: a member that got less because of a limit, a guarantee or a full place is
// looked at again when there is room.
func (e *decider) remember(m *books.Member, d *decision) {
	for i := range d.rooms {
		if d.rooms[i].cut {
			d.rooms[i].role.Cut = true
		}
	}
	if d.blocked {
		e.Promises.Blocked = true
	}
	for _, s := range d.full {
		s.NoteFull()
	}
	if d.why == isPutBy {
		e.putBy = putBy{m, d.putBy}
	}
}

// usable returns the part of the agent to which the member's role gives it access.
func (e *decider) usable(m *books.Member, a *books.Agent) (api.Resources, refusal) {
	offer := a.Open
	if len(a.Keeps) > 0 {
		offer = a.Unkept()
		if offer.IsZero() && !a.Open.IsZero() {
			return offer, isKept
		}
	}
	if !a.Plain {
		offer = books.UsableBy(m, offer)
	}
	if offer.IsZero() {
		return offer, nothingLeft
	}
	return offer, granted
}

// cutToBounds reduces the offer to what limits, MaxOffer and guarantees allow. Guarantees come last, because offers to
// others may meet them.
func (e *decider) cutToBounds(q question, d *decision) {
	m := q.member
	if m.Role.Limited {
		left := e.withinLimits(m.Role, d)
		if left.IsZero() { // true of every agent, so it is said before what is special to this one
			d.offer, d.why = left, overLimit
			return
		}
		if q.careful && e.isShort(q, d) {
			return
		}
		d.offer, d.cutBy = left, overLimit
	}
	if m.Framework.Most != nil {
		if q.careful && e.isShort(q, d) {
			return
		}
		d.offer, d.cutBy = e.withinMost(m, q.agent, d.offer), overMost
		if d.offer.IsZero() {
			d.why = overMost
			return
		}
	}
	d.whole = d.offer
	if e.Promises.Count > 0 {
		if q.careful && e.isShort(q, d) {
			return
		}
		e.boundByPromises(q, d)
	}
}

// boundByPromises reduces the offer to what the guarantees of others leave or, if the member's roles are owed
// something, to what they are owed.
func (e *decider) boundByPromises(q question, d *decision) {
	d.cutBy = isPromised
	part := e.withinPromises(q.member.Role, d.offer, q.owed)
	if books.Same(part, d.offer) {
		return
	}
	d.blocked = true
	d.whole = part
	if q.owed && !part.IsZero() {
		if d.whole = e.withinPromises(q.member.Role, d.offer, false); part.Equal(d.whole) {
			d.whole = part
		}
	}
	if d.offer = part; part.IsZero() {
		d.why = isPromised
	}
}

// isShort reports whether too little is left of what the member wants, and notes the reason.
func (e *decider) isShort(q question, d *decision) bool {
	before := *d
	d.whole = d.offer
	e.cutToWanted(q, d)
	why := d.why
	if *d = before; why == granted || why == isFiltered {
		return false
	}
	d.why = why
	return true
}

// cutToWanted reduces the offer to what the member wants of it: whole shapes of its demand or, without a demand,
// everything if it is worth offering.
func (e *decider) cutToWanted(q question, d *decision) {
	m, a := q.member, q.agent
	switch {
	case m.Demand != nil:
		e.wantShape(q, d)
	case !e.isWorth(m, a, d.offer):
		d.why = tooLittle
	case q.owed && !e.meetsLack(d.offer):
		d.why = isPromised
	case e.hidden(a, m, d.whole):
		d.why = isFiltered
	}
}

// isWorth reports whether the offer has at least what is worth offering.
func (e *decider) isWorth(m *books.Member, a *books.Agent, offer api.Resources) bool {
	counted := a.Counted
	if !a.Plain || !books.Same(offer, a.Open) {
		e.Turn.Offer = e.Kinds.Count(e.Turn.Offer, offer, everything)
		counted = e.Turn.Offer
	}
	if minimum := m.Framework.Minimum; minimum != nil {
		return counted.Holds(minimum)
	}
	for _, l := range e.least {
		if counted.At(l.kind) >= l.amount {
			return true
		}
	}
	return false
}

// everything selects all resources, revocable ones too.
func everything(api.Label) bool { return true }

// owes returns the role because of whose guarantee the member goes before all others; "" if there is none.
func (d *decision) owes(m *books.Member) api.Role {
	if d.owed {
		if r := m.Role.LackingGuarantee(); r != nil {
			return r.Name
		}
	}
	return ""
}

// meetsLack reports whether the offer contains something that the member's roles are guaranteed and lack. It uses the
// relief that was just computed.
func (e *decider) meetsLack(offer api.Resources) bool {
	for _, item := range offer.Items() {
		if books.Unreserved(item.Label) && e.Turn.Relief.At(e.Kinds.Number(item.Name)) > 0 {
			return true
		}
	}
	return false
}
