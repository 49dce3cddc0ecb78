package core

import (
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
)

// offer is an open offer: one that the framework may answer.
type offer struct {
	spot
	returnAt time.Time // when a kept offer is declined: a little before the leader takes it back
	kept     bool
}

// spot is the agent of an offer, and the role in which it is offered.
type spot struct {
	agent api.AgentID
	role  api.Role
}

// returnMargin is the time that the decline may take to reach the leader.
const returnMargin = time.Second

// offers holds the open offers of the session.
type offers struct {
	open  map[api.OfferID]offer
	fresh []api.Offer // not shown to the scheduler yet
	// due is a time not later than when the first kept offer has to be declined; zero: none is kept.
	due time.Time
}

func newOffers() *offers { return &offers{open: make(map[api.OfferID]offer)} }

func (o *offers) add(list []api.Offer, now time.Time) {
	for _, fresh := range list {
		o.open[fresh.ID] = offer{spot: spot{fresh.Agent, fresh.Role}, returnAt: now.Add(fresh.Timeout - min(returnMargin, fresh.Timeout/5))}
	}
	o.fresh = append(o.fresh, list...)
}

// show returns the offers that the scheduler has not seen and that are still open.
func (o *offers) show() []api.Offer {
	shown := make([]api.Offer, 0, len(o.fresh))
	for _, unseen := range o.fresh {
		if _, open := o.open[unseen.ID]; open {
			shown = append(shown, unseen)
		}
	}
	o.fresh = nil
	return shown
}

// spotOf returns the spot of the offers that are open; the zero spot if none is.
func (o *offers) spotOf(ids []api.OfferID) spot {
	for _, id := range ids {
		if known, ok := o.open[id]; ok {
			return known.spot
		}
	}
	return spot{}
}

// answer removes the offers, and separates those that were open from those that were gone.
func (o *offers) answer(ids []api.OfferID) (open, gone []api.OfferID) {
	for _, id := range ids {
		if _, ok := o.open[id]; ok {
			delete(o.open, id)
			open = append(open, id)
		} else {
			gone = append(gone, id)
		}
	}
	return open, gone
}

// keep marks offers as kept, and returns those that are gone.
func (o *offers) keep(ids []api.OfferID) (gone []api.OfferID) {
	for _, id := range ids {
		known, ok := o.open[id]
		if !ok {
			gone = append(gone, id)
			continue
		}
		known.kept = true
		o.open[id] = known
		o.dueBy(known.returnAt)
	}
	return gone
}

func (o *offers) dueBy(at time.Time) {
	if o.due.IsZero() || at.Before(o.due) {
		o.due = at
	}
}

// rescind removes offers, and returns those that were kept.
func (o *offers) rescind(ids []api.OfferID) (kept []api.OfferID) {
	for _, id := range ids {
		if o.open[id].kept {
			kept = append(kept, id)
		}
		delete(o.open, id)
	}
	return kept
}

// kept lists the offers that are kept.
func (o *offers) kept() (ids []api.OfferID) {
	for id, known := range o.open {
		if known.kept {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// overdue removes and returns the kept offers that have to be declined now.
func (o *offers) overdue(now time.Time) (ids []api.OfferID) {
	o.due = time.Time{}
	for _, id := range o.kept() {
		if at := o.open[id].returnAt; at.After(now) {
			o.dueBy(at)
			continue
		}
		ids = append(ids, id)
		delete(o.open, id)
	}
	return ids
}

// drop removes all offers at the end of a session, and returns those that were kept.
func (o *offers) drop() (kept []api.OfferID) {
	kept = o.kept()
	*o = *newOffers()
	return kept
}
