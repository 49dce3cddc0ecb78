package core

import (
	"slices"
	"time"

	"github.com/tenderhq/tender/master/view"
)

// decisionsMax bounds what is remembered of one framework; the oldest is forgotten.
const decisionsMax = 20

// decisions are the latest of one framework since this leader leads. Frameworks that are
// offered nothing have none.
type decisions struct {
	latest []view.Decision
	oldest int // once there are decisionsMax
}

func (d *decisions) add(one view.Decision) {
	if len(d.latest) < decisionsMax {
		d.latest = append(d.latest, one)
		return
	}
	d.latest[d.oldest] = one
	d.oldest = (d.oldest + 1) % decisionsMax
}

// ended remembers how an offer ended that no accept has used.
func (r *offers) ended(o *offer, how view.Outcome, why string, filter time.Duration) {
	o.framework.decisions.add(view.Decision{
		At: r.now, Made: o.made, Offer: o.id, Agent: o.agent.id, Role: o.role, Resources: o.resources,
		Outcome: how, Why: why, Offers: 1, Launched: o.did.Launched, Refused: o.did.Refused, Filter: filter,
	})
}

// answered remembers how an accept ended: its offers as one.
func (r *operations) answered(x *acceptance, one view.Decision) {
	one = x.summary(one)
	one.At = r.now
	x.session.framework.decisions.add(one)
}

// summary adds to what was done with which offers: those of the first part, of an answer in
// parts, because they hold all that it could use.
func (x *acceptance) summary(one view.Decision) view.Decision {
	if one.Offers > 0 {
		return one
	}
	first := x.offers[0]
	one.Made, one.Offer, one.Agent, one.Role = first.made, first.id, x.agent.id, x.role
	one.Outcome, one.Offers, one.Resources = view.Accepted, len(x.offers), first.resources
	for _, o := range x.offers[1:] {
		one.Resources = one.Resources.Plus(o.resources)
	}
	return one
}

// asked remembers a step in the life of an inverse offer.
func (r *inverses) asked(x *inverse, how view.Outcome, why string) {
	x.framework.decisions.add(view.Decision{
		At: r.now, Made: x.made, Offer: x.id, Agent: x.agent.id, Role: x.role, Resources: x.resources,
		Outcome: how, Why: why,
	})
}

// inOrder lists them, the newest last.
func (d *decisions) inOrder() []view.Decision {
	return slices.Concat(d.latest[d.oldest:], d.latest[:d.oldest])
}
