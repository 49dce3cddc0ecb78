package engine

import (
	"slices"

	"github.com/tenderhq/tender/allocator/engine/internal/books"
	"github.com/tenderhq/tender/api"
)

// withinLimits reduces the offer to the room under the limits of the role and of those above it. What is reserved for a
// role counts for the role and for those above whether it is used or not; so to use it needs room only under the limits
// below that role.
func (e *decider) withinLimits(r *books.Role, d *decision) api.Resources {
	rooms, full := e.roomsUnderLimits(r, d.rooms)
	d.rooms = rooms
	return e.cutEach(d.offer, func(item api.Resource) int64 {
		if item.Revocable {
			return books.Unbounded
		}
		if full && item.Reserved == "" {
			return 0
		}
		x := int64(books.Unbounded)
		kind := e.Kinds.Number(item.Name)
		for i := range rooms {
			if rooms[i].bounds(item.Label, kind) {
				x = min(x, rooms[i].left[kind])
			}
		}
		x = min(x, books.Size(item))
		for i := range rooms {
			if rooms[i].bounds(item.Label, kind) {
				rooms[i].left[kind] -= x
				if x < books.Size(item) {
					rooms[i].cut = true
				}
			}
		}
		return x
	})
}

// roomsUnderLimits returns what is left under the limits that apply to the role, appended to the given slice. full:
// nothing is left of something that every task needs.
func (e *decider) roomsUnderLimits(r *books.Role, into []room) (rooms []room, full bool) {
	for above := r; above != nil; above = above.Parent {
		if above.Limit == nil {
			continue
		}
		if len(into) == cap(into) {
			into = append(into, room{})
		} else {
			into = into[:len(into)+1] // the room that was there before, for its memory
		}
		one := &into[len(into)-1]
		one.role, one.cut = above, above.Full
		full = full || above.Full
		one.left.Set(above.Limit)
		for kind, most := range one.left {
			if most != books.Unbounded {
				one.left[kind] = max(0, most-above.Taken.At(kind))
			}
		}
	}
	return into, full
}

// room is what is left under the limit of one role.
type room struct {
	role *books.Role
	left books.Amounts
	cut  bool // it has reduced an offer
}

// bounds reports whether the limit applies to resources with this label.
func (r *room) bounds(label api.Label, kind int) bool {
	if kind >= len(r.left) || r.left[kind] == books.Unbounded {
		return false
	}
	return label.Reserved == "" || r.role.Name != label.Reserved && r.role.Name.Within(label.Reserved)
}

// withinPromises returns the part of the offer that is free and not promised to others. With owed it returns only what
// is promised to the role: nothing of a kind of which the role's guarantee is met, and nothing at all if cpus or mem
// are such a kind, because guarantees are met kind by kind. Kinds that the guarantee does not name may be included.
func (e *decider) withinPromises(r *books.Role, offer api.Resources, owed bool) api.Resources {
	e.Turn.Relief = e.Relief(r, e.Turn.Relief)
	relief := e.Turn.Relief
	taken := &e.Turn.Rest
	taken.Set(nil)
	most := func(kind int) int64 {
		need, mine := e.Promises.Need.At(kind), relief.At(kind)
		switch {
		case owed && mine > 0:
			return mine
		case owed && r.IsGuaranteed(kind):
			return 0
		}
		if need == 0 {
			return books.Unbounded
		}
		return mine + max(0, e.Promises.Spare.At(kind)-need)
	}
	full := most(e.Cpus) == 0 || most(e.Mem) == 0
	return e.cutEach(offer, func(item api.Resource) int64 {
		kind := e.Kinds.Number(item.Name)
		switch {
		case !books.Unreserved(item.Label):
			return books.Unbounded
		case full:
			return 0
		}
		x := min(books.Size(item), max(0, most(kind)-taken.At(kind)))
		taken.AddAt(kind, x)
		return x
	})
}

// withinMost reduces the offer to the framework's MaxOffer, less what the member has open of this agent already.
// Revocable resources are capped separately. Otherwise an offer that lost its firm part in the meantime could hold more
// revocable resources than it may.
func (e *decider) withinMost(m *books.Member, a *books.Agent, offer api.Resources) api.Resources {
	left := &e.Turn.Rest
	left.Set(m.Framework.Most)
	if a.HasOffer(m) {
		e.Turn.Offer = e.Kinds.CountAll(e.Turn.Offer, a.SumOf(m, true))
		for kind, x := range e.Turn.Offer {
			if kind < len(*left) && (*left)[kind] != books.Unbounded {
				(*left)[kind] = max(0, (*left)[kind]-x)
				if (*left)[kind] == 0 {
					return api.Resources{}
				}
			}
		}
	}
	return e.cutEach(offer, func(item api.Resource) int64 {
		kind := e.Kinds.KindOf(&item)
		if kind >= len(*left) || (*left)[kind] == books.Unbounded {
			return books.Unbounded
		}
		x := min(books.Size(item), (*left)[kind])
		(*left)[kind] -= x
		return x
	})
}

// cutEach keeps of each item as much as most allows. It asks for reserved items before unreserved ones. An offer from
// which nothing is cut is returned unchanged.
func (e *decider) cutEach(offer api.Resources, most func(api.Resource) int64) api.Resources {
	items := offer.Items()
	var kept []api.Resource
	keep := func(i int) {
		item := items[i]
		x := most(item)
		if x >= books.Size(item) && kept == nil {
			return
		}
		if kept == nil {
			kept = slices.Clone(items)
		}
		kept[i] = shrunk(item, x)
	}
	for i := range items {
		if items[i].Reserved != "" {
			keep(i)
		}
	}
	for i := range items {
		if items[i].Reserved == "" {
			keep(i)
		}
	}
	if kept == nil {
		return offer
	}
	return api.NewResources(kept...)
}

// shrunk returns at most this much of an item: the first numbers of ranges, the first words of a set. A volume is never
// divided.
func shrunk(item api.Resource, most int64) api.Resource {
	switch {
	case most >= books.Size(item):
		return item
	case item.Volume != "":
		return api.Resource{Label: item.Label}
	case len(item.Ranges) > 0:
		item.Ranges = item.Ranges.Lowest(uint64(most / 1000))
	case len(item.Set) > 0:
		item.Set = item.Set[:most/1000]
	default:
		item.Scalar = api.Milli(most)
	}
	return item
}
