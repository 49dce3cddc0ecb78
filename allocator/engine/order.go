package engine

import (
	"cmp"
	"iter"
	"slices"

	"github.com/tenderhq/tender/allocator/engine/internal/books"
)

// order says in which order members are asked: lane by lane, and in each lane down the tree of roles to the smallest
// share, then to the smallest share in that role. It contains only members that may be offered something, so that the
// others cost nothing.
type order struct {
	ranking *ranking
	lanes   []*lane // in the order in which they are served
	seats   []seat  // by number of the member
	parts   []*place
	places  [][]*place // by number of the role
	holes   []int32
	size    int   // members in the order
	flat    *flat // used in place of the lanes if the policy has its own order
}

// lane holds the members of one rank. The lanes of members that have stepped back come after all others.
type lane struct {
	steppedBack bool
	rank        int
	root        *place
}

// place is a node of a lane's tree: a role, or the leaf that holds a role's own members.
type place struct {
	number int32
	lane   *lane
	role   *books.Role // nil: the root
	own    *place
	leaf   bool // it holds the members of exactly this role
	above  *place
	list   books.List
	key    books.Entry // its entry in the list of the place above, if it is there
}

// seat says where a member stands.
type seat struct {
	leaf *place // nil: the member is not in this order
	key  books.Entry
}

func newOrder(r *ranking) *order {
	o := &order{ranking: r}
	if r.policy.Less != nil {
		o.flat = &flat{}
	}
	return o
}

// placesOf returns the places that the role has in the lanes.
func (o *order) placesOf(r *books.Role) *[]*place {
	for len(o.places) <= int(r.Number) {
		o.places = append(o.places, nil)
	}
	return &o.places[r.Number]
}

func (o *order) seat(m *books.Member) *seat {
	for len(o.seats) <= int(m.Number) {
		o.seats = append(o.seats, seat{})
	}
	return &o.seats[m.Number]
}

func (o *order) has(m *books.Member) bool { return o.seat(m).leaf != nil }

// insert adds a member that is not in the order yet.
func (o *order) insert(m *books.Member) {
	if o.flat != nil {
		o.insertFlat(m)
		return
	}
	leaf := o.place(o.lane(m.SteppedBack, o.ranking.rankOf(m.Role)), m.Role).own
	key := o.ranking.memberKey(m)
	*o.seat(m) = seat{leaf, key}
	o.size++
	o.insertEntry(leaf, key)
}

// insertEntry inserts an entry, and also the places above that were empty before.
func (o *order) insertEntry(p *place, key books.Entry) {
	p.list.Insert(key)
	for p.above != nil && p.list.Size == 1 {
		if beside := &p.above.list; beside.Size == 1 { // while it was alone, moveToShare has not updated it
			o.rekey(o.parts[^beside.Chunks[0][0].ID])
		}
		p.key = o.key(p)
		p.above.list.Insert(p.key)
		p = p.above
	}
}

// members yields the members in their order.
func (o *order) members() iter.Seq[*books.Member] {
	return func(yield func(*books.Member) bool) {
		if o.flat != nil {
			for _, s := range o.flat.list {
				if !yield(o.ranking.Members[s.number]) {
					return
				}
			}
		}
		for _, l := range o.lanes {
			if !o.walk(l.root, yield) {
				return
			}
		}
	}
}

func (o *order) walk(p *place, yield func(*books.Member) bool) bool {
	for _, chunk := range p.list.Chunks {
		for _, x := range chunk {
			if x.ID < 0 && !o.walk(o.parts[^x.ID], yield) || x.ID >= 0 && !yield(o.ranking.Members[x.ID]) {
				return false
			}
		}
	}
	return true
}

// remove removes a member, and the places above that are then empty.
func (o *order) remove(m *books.Member) {
	s := o.seat(m)
	switch {
	case s.leaf == nil:
		return
	case o.flat != nil:
		o.removeFlat(m)
		return
	}
	p := s.leaf
	p.list.Remove(s.key)
	for p.above != nil && p.list.Size == 0 {
		p.above.list.Remove(p.key)
		p = p.above
	}
	*s = seat{}
	o.size--
}

// refresh moves the member to the position that follows from its share.
func (o *order) refresh(m *books.Member) {
	s := o.seat(m)
	switch {
	case s.leaf == nil:
		return
	case o.flat != nil:
		o.refreshFlat(m)
		return
	}
	if key := o.ranking.memberKey(m); key != s.key {
		s.leaf.list.Move(s.key, key)
		s.key = key
	}
}

// refreshRole moves the role's places to the positions that follow from its share.
func (o *order) refreshRole(r *books.Role) {
	for _, p := range *o.placesOf(r) {
		if p.own.list.Size > 0 {
			o.moveToShare(p.own)
		}
		if p.list.Size > 0 {
			o.moveToShare(p)
		}
	}
}

// moveToShare moves the place to the position that follows from its share. If it is alone in its list, there is nothing
// to move.
func (o *order) moveToShare(p *place) {
	if p.above.list.Size > 1 {
		o.rekey(p)
	}
}

func (o *order) rekey(p *place) {
	if key := o.key(p); key != p.key {
		p.above.list.Move(p.key, key)
		p.key = key
	}
}

// refreshAll refreshes everything, after all shares have changed at once.
func (o *order) refreshAll() {
	if o.flat != nil {
		o.refreshAllFlat()
		return
	}
	for number := range o.seats {
		if s := &o.seats[number]; s.leaf != nil {
			o.refresh(o.ranking.Members[number])
		}
	}
	for _, p := range o.parts {
		if p != nil && p.above != nil && p.list.Size > 0 {
			o.moveToShare(p)
		}
	}
}

func (o *order) key(p *place) books.Entry {
	if p.leaf {
		return books.Entry{Share: o.ranking.nextLeaf(p.role), Served: p.role.Own, ID: ^p.number}
	}
	return books.Entry{Share: o.ranking.nextRole(p.role), Served: p.role.Served, ID: ^p.number}
}

func (o *order) lane(steppedBack bool, rank int) *lane {
	at, found := slices.BinarySearchFunc(o.lanes, lane{steppedBack: steppedBack, rank: rank}, func(l *lane, want lane) int {
		switch {
		case l.steppedBack != want.steppedBack && want.steppedBack, l.steppedBack == want.steppedBack && l.rank > want.rank:
			return -1
		case l.steppedBack != want.steppedBack || l.rank != want.rank:
			return +1
		}
		return 0
	})
	if !found {
		l := &lane{steppedBack: steppedBack, rank: rank}
		l.root = o.newPlace(place{lane: l})
		o.lanes = slices.Insert(o.lanes, at, l)
	}
	return o.lanes[at]
}

func (o *order) place(l *lane, r *books.Role) *place {
	for _, p := range *o.placesOf(r) {
		if p.lane == l {
			return p
		}
	}
	above := l.root
	if r.Parent != nil {
		above = o.place(l, r.Parent)
	}
	p := o.newPlace(place{lane: l, role: r, above: above})
	p.own = o.newPlace(place{lane: l, role: r, above: p, leaf: true})
	places := o.placesOf(r)
	*places = append(*places, p)
	return p
}

func (o *order) newPlace(p place) *place {
	if last := len(o.holes) - 1; last >= 0 {
		p.number = o.holes[last]
		o.holes = o.holes[:last]
	} else {
		p.number = int32(len(o.parts))
		o.parts = append(o.parts, nil)
	}
	o.parts[p.number] = &p
	return &p
}

// forget drops the places of a role that has no members.
func (o *order) forget(r *books.Role) {
	for _, p := range *o.placesOf(r) {
		for _, gone := range []*place{p.own, p} {
			o.parts[gone.number] = nil
			o.holes = append(o.holes, gone.number)
		}
	}
	*o.placesOf(r) = nil
}

// flat is an order of members by the policy's Less, in place of the tree of roles.
type flat struct {
	list []stand
	leaf place // stands for the leaf of a seat in this order
}

// stand is a member in a flat order, with the Standing by which it was put there.
type stand struct {
	Standing
	served      uint64
	number      int32
	steppedBack bool
}

func (e *ranking) standOf(m *books.Member) stand {
	return stand{e.standing(m), m.Served, m.Number, m.SteppedBack}
}

// compareStands puts members that have stepped back last, and otherwise follows the policy; equals take turns.
func (e *ranking) compareStands(x, y stand) int {
	less := e.policy.Less
	switch {
	case x.steppedBack != y.steppedBack && y.steppedBack:
		return -1
	case x.steppedBack != y.steppedBack:
		return +1
	case less(x.Standing, y.Standing):
		return -1
	case less(y.Standing, x.Standing):
		return +1
	}
	return cmp.Or(cmp.Compare(x.served, y.served), cmp.Compare(x.number, y.number))
}

func (o *order) insertFlat(m *books.Member) {
	s := o.ranking.standOf(m)
	at, _ := slices.BinarySearchFunc(o.flat.list, s, o.ranking.compareStands)
	o.flat.list = slices.Insert(o.flat.list, at, s)
	*o.seat(m) = seat{leaf: &o.flat.leaf}
	o.size++
}

func (o *order) removeFlat(m *books.Member) {
	if at := o.flat.find(m); at >= 0 {
		o.flat.list = slices.Delete(o.flat.list, at, at+1)
		*o.seat(m) = seat{}
		o.size--
	}
}

func (o *order) refreshFlat(m *books.Member) {
	if at := o.flat.find(m); at >= 0 && o.flat.list[at] != o.ranking.standOf(m) {
		o.removeFlat(m)
		o.insertFlat(m)
	}
}

// refreshAllFlat sorts the flat order anew, after all shares have changed at once.
func (o *order) refreshAllFlat() {
	for i := range o.flat.list {
		o.flat.list[i] = o.ranking.standOf(o.ranking.Members[o.flat.list[i].number])
	}
	slices.SortFunc(o.flat.list, o.ranking.compareStands)
}

func (f *flat) find(m *books.Member) int {
	return slices.IndexFunc(f.list, func(s stand) bool { return s.number == m.Number })
}

// serveFlat asks the members in their order until one takes something. With owed it asks only the members in that role
// and below.
func (e *server) serveFlat(a *books.Agent, o *order, owed *books.Role) bool {
	for _, s := range o.flat.list {
		if m := e.Members[s.number]; owed == nil || m.Role.Name.Within(owed.Name) {
			if e.serveMember(a, m, o, owed != nil) {
				return true
			}
		}
	}
	return false
}
