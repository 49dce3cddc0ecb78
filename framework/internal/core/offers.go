package core

import (
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
)

// offer is an open offer: one that the framework may answer.
type offer struct {
	spot
	returnAt time.Time // when a kept one is given back: a little before the leader takes it
	kept     bool
}

// spot is where offers are of: an agent, and in which role.
type spot struct {
	agent api.AgentID
	role  api.Role
}

// returnMargin covers the way to the leader.
const returnMargin = time.Second

// offers holds the open offers of the session.
type offers struct {
	open  map[api.OfferID]offer
	fresh []api.Offer // not yet shown to the scheduler
	// due is not after the first kept offer has to be returned; zero: none is kept.
	due time.Time
}

func newOffers() offers { return offers{open: make(map[api.OfferID]offer)} }

func (o *offers) add(list []api.Offer, now time.Time) {
	for _, one := range list {
		o.open[one.ID] = offer{spot: spot{one.Agent, one.Role}, returnAt: now.Add(one.Timeout - min(returnMargin, one.Timeout/5))}
	}
	o.fresh = append(o.fresh, list...)
}

// show hands out the offers that the scheduler has not seen and that are still open.
func (o *offers) show() []api.Offer {
	shown := make([]api.Offer, 0, len(o.fresh))
	for _, one := range o.fresh {
		if _, open := o.open[one.ID]; open {
			shown = append(shown, one)
		}
	}
	o.fresh = nil
	return shown
}

// spotOf is the spot of open offers; of none: nowhere.
func (o *offers) spotOf(ids []api.OfferID) spot {
	for _, id := range ids {
		if one, ok := o.open[id]; ok {
			return one.spot
		}
	}
	return spot{}
}

// answer takes the offers out and splits them into those that were open and others.
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

// keep marks offers as kept and returns those that are gone.
func (o *offers) keep(ids []api.OfferID) (gone []api.OfferID) {
	for _, id := range ids {
		one, ok := o.open[id]
		if !ok {
			gone = append(gone, id)
			continue
		}
		one.kept = true
		o.open[id] = one
		o.dueBy(one.returnAt)
	}
	return gone
}

func (o *offers) dueBy(at time.Time) {
	if o.due.IsZero() || at.Before(o.due) {
		o.due = at
	}
}

// rescind takes offers out and returns those that were kept.
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
	for id, one := range o.open {
		if one.kept {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// overdue takes out the kept offers that have to be returned now.
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

// drop forgets all offers, at the end of a session, and returns those that were kept.
func (o *offers) drop() (kept []api.OfferID) {
	kept = o.kept()
	*o = newOffers()
	return kept
}
