package gateway

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tenderhq/tender/api"
)

// lostMax bounds the offers that are remembered when they are taken back. An accept of an older one ends as one of an
// offer that never was.
const lostMax = 1024

// offers are those of a framework. The session's mu guards them.
type offers struct {
	open    map[api.OfferID]api.Offer // the framework may answer them
	hidden  map[api.OfferID]bool      // the open ones that the framework was not shown yet
	inverse map[api.OfferID]bool      // the inverse offers
	lost    map[api.OfferID]place     // those that were taken back last, maybe while their answer was on its way
	order   []api.OfferID             // the same, the oldest first
}

func newOffers() offers {
	return offers{open: make(map[api.OfferID]api.Offer), hidden: make(map[api.OfferID]bool), inverse: make(map[api.OfferID]bool), lost: make(map[api.OfferID]place)}
}

// at lists the open offers of a place.
func (o *offers) at(at place) (list []api.Offer) {
	for _, id := range slices.Sorted(maps.Keys(o.open)) {
		if offer := o.open[id]; placeOf(offer) == at {
			list = append(list, offer)
		}
	}
	return list
}

func placeOf(offer api.Offer) place { return place{offer.Agent, offer.Role} }

// take ends offers, because they are answered. It returns where they are, if all are in one place, and the first one
// that is not open.
func (o *offers) take(ids []api.OfferID) (at place, gone api.OfferID) {
	for i, id := range ids {
		offer, open := o.open[id]
		here := o.lost[id]
		if open {
			here = placeOf(offer)
			delete(o.open, id)
			delete(o.hidden, id)
		} else {
			gone = cmp.Or(gone, id)
		}
		if i > 0 && here != at {
			here = place{}
		}
		at = here
	}
	return at, gone
}

// lose ends an offer that is taken back. It reports whether the framework was shown it and has not answered it.
func (o *offers) lose(id api.OfferID) (shown bool) {
	shown = !o.hidden[id]
	at, gone := o.take([]api.OfferID{id})
	if gone != "" {
		return false
	}
	if len(o.order) == lostMax {
		delete(o.lost, o.order[0])
		o.order = o.order[1:]
	}
	o.lost[id] = at
	o.order = append(o.order, id)
	return shown
}

// unhide returns the hidden offers for which no launch waits any more. They count as shown.
func (o *offers) unhide(wants func(place) bool) (list []api.Offer) {
	for _, id := range slices.Sorted(maps.Keys(o.hidden)) {
		if offer := o.open[id]; !wants(placeOf(offer)) {
			delete(o.hidden, id)
			list = append(list, offer)
		}
	}
	return list
}

func idsOf(offers []api.Offer) []api.OfferID {
	ids := make([]api.OfferID, len(offers))
	for i, offer := range offers {
		ids[i] = offer.ID
	}
	return ids
}

// roles are those in which a framework wants no offers. The session's mu guards them.
type roles struct {
	suppressed map[api.Role]bool // as the framework has said
	woken      map[api.Role]bool // of those, where the gateway wants offers itself, for launches that fell through
}

func newRoles(suppressed []api.Role) roles {
	r := roles{suppressed: make(map[api.Role]bool), woken: make(map[api.Role]bool)}
	for _, role := range suppressed {
		r.suppressed[role] = true
	}
	return r
}

// wake notes that the gateway wants offers in a role.
func (r *roles) wake(role api.Role) {
	if r.suppressed[role] {
		r.woken[role] = true
	}
}

// settle returns the roles that are to be suppressed again, as nothing is wanted in them any more.
func (r *roles) settle(wants func(api.Role) bool) (quiet []api.Role) {
	for _, role := range slices.Sorted(maps.Keys(r.woken)) {
		if wants(role) {
			continue
		}
		if delete(r.woken, role); r.suppressed[role] {
			quiet = append(quiet, role)
		}
	}
	return quiet
}
