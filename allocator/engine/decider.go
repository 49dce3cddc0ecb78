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
	least    []least   // the least that is offered to a framework that states no least itself
	decision decision  // the last one
	admitted admission // what a shape may take of an agent that was put by for it
	putBy    putBy     // of the agent at hand
	number   uint64    // of the turn
}

// least is one amount of a kind that makes an offer worth making.
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

// question is what a look at one agent for one member asks: what is it offered?
type question struct {
	member *books.Member
	agent  *books.Agent
	// owed asks only for what the member's roles are guaranteed and lack.
	owed bool
	// careful asks after each cut whether what is left is still enough, so that the first thing that
	// rules the agent out by itself is named: what can never be, such as a task larger than the limit
	// of its role, before what passes, such as a guarantee that is not met yet. For explanations.
	careful bool
}

// decision is the answer. To find it changes nothing that the engine knows; what has to be remembered of
// it, remember writes down. It holds until the next question is asked.
type decision struct {
	why  refusal
	owed bool
	// offer is what the member is offered, or, with a refusal, what was left when that was too little.
	offer api.Resources
	// whole is what it could be offered if neither a demand nor a guarantee's lack capped it: filters
	// are compared with that.
	whole   api.Resources
	plan    books.Planned  // what of the member's demand the offer is sized for
	cutBy   refusal        // the bound that was looked at last
	blocked bool           // the offer is smaller because of a guarantee
	rooms   []room         // under the limits that bound it
	full    []*books.Shape // shapes of which the agent's place has as many as are wanted in one place
	putBy   []*books.Shape // spread shapes, which wait until all agents were looked at
}

// decide asks in this order: may the member have anything of the agent, what do limits, a capped offer and
// guarantees leave of that, and is that what it wants?
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

// available is what the member may have of the agent, whatever it wants.
func (e *decider) available(q question) *decision {
	m, a, d := q.member, q.agent, &e.decision
	d.why, d.owed, d.cutBy, d.blocked = granted, q.owed, granted, false
	d.rooms, d.full, d.putBy = d.rooms[:0], d.full[:0], d.putBy[:0] // offer, whole and plan are set where they count
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

// remember notes what later rounds need: who got less because of a limit, a guarantee or a full place is looked at
// again when there is room.
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

// usable is the part of the agent that the member's role gives it access to.
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

// cutToBounds cuts the offer down to what limits, a capped offer and guarantees allow. Guarantees, which others
// can meet, come last.
func (e *decider) cutToBounds(q question, d *decision) {
	m := q.member
	if m.Role.Limited {
		left := e.withinLimits(m.Role, d)
		if left.IsZero() { // of every agent: that is said before what is special to this one
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

// boundByPromises cuts the offer down to what others' guarantees leave; where the member's roles are owed
// something, to that.
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

// isShort reports whether what is left so far is too little of what the member wants, and notes why.
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

// cutToWanted cuts the offer to what the member wants of it: whole shapes of its demand, or all that is worth
// offering.
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

// isWorth reports whether the offer is at least what is worth offering.
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

// owes names the role for whose guarantee the member goes before all others; "" when it does not.
func (d *decision) owes(m *books.Member) api.Role {
	if d.owed {
		if r := m.Role.LackingGuarantee(); r != nil {
			return r.Name
		}
	}
	return ""
}

// meetsLack reports whether the offer holds something that the member's roles are guaranteed
// and lack, by the relief that was found for it just now.
func (e *decider) meetsLack(offer api.Resources) bool {
	for _, item := range offer.Items() {
		if books.Unreserved(item.Label) && e.Turn.Relief.At(e.Kinds.Number(item.Name)) > 0 {
			return true
		}
	}
	return false
}
