package engine

import (
	"iter"
	"slices"
)

// order says in which order members are asked: lane by lane, in each down the tree of
// roles to the smallest share, then to the smallest share in that role. It holds only
// members that may be offered something, so that the others cost nothing.
type order struct {
	ranking *ranking
	lanes   []*lane // as they are served
	seats   []seat  // by member number
	parts   []*place
	places  [][]*place // by number of role
	holes   []int32
	size    int   // members in it
	flat    *flat // instead of lanes, where a policy has an order of its own
}

// lane holds the members of one rank. Those that have stepped back come after all others.
type lane struct {
	steppedBack bool
	rank        int
	root        *place
}

// place is a node of a lane's tree: a role, or the leaf of a role's own members.
type place struct {
	number int32
	lane   *lane
	role   *role // nil: the root
	own    *place
	leaf   bool // of the role's own members
	above  *place
	list   list
	key    entry // as it stands in the list above, if it does
}

// seat is where a member stands.
type seat struct {
	leaf *place // nil: not in this order
	key  entry
}

func newOrder(r *ranking) *order {
	o := &order{ranking: r}
	if r.policy.Less != nil {
		o.flat = &flat{}
	}
	return o
}

// placesOf are those of the role in the lanes.
func (o *order) placesOf(r *role) *[]*place {
	for len(o.places) <= int(r.number) {
		o.places = append(o.places, nil)
	}
	return &o.places[r.number]
}

func (o *order) seat(m *member) *seat {
	for len(o.seats) <= int(m.number) {
		o.seats = append(o.seats, seat{})
	}
	return &o.seats[m.number]
}

func (o *order) has(m *member) bool { return o.seat(m).leaf != nil }

// insert adds a member that is not in it yet.
func (o *order) insert(m *member) {
	if o.flat != nil {
		o.insertFlat(m)
		return
	}
	leaf := o.leaf(o.lane(m.steppedBack, o.ranking.rank(m.role)), m.role)
	key := o.ranking.memberKey(m)
	*o.seat(m) = seat{leaf, key}
	o.size++
	o.put(leaf, key)
}

// put inserts an entry, and the places above that were empty before.
func (o *order) put(p *place, key entry) {
	p.list.insert(key)
	for p.above != nil && p.list.size == 1 {
		if beside := &p.above.list; beside.size == 1 { // shift has let it be until now
			o.rekey(o.parts[^beside.chunks[0][0].id])
		}
		p.key = o.key(p)
		p.above.list.insert(p.key)
		p = p.above
	}
}

// members walks the members in order.
func (o *order) members() iter.Seq[*member] {
	return func(yield func(*member) bool) {
		if o.flat != nil {
			for _, s := range o.flat.list {
				if !yield(o.ranking.members[s.number]) {
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

func (o *order) walk(p *place, yield func(*member) bool) bool {
	for _, chunk := range p.list.chunks {
		for _, x := range chunk {
			if x.id < 0 && !o.walk(o.parts[^x.id], yield) || x.id >= 0 && !yield(o.ranking.members[x.id]) {
				return false
			}
		}
	}
	return true
}

// remove takes a member out, and the places above that are empty then.
func (o *order) remove(m *member) {
	s := o.seat(m)
	switch {
	case s.leaf == nil:
		return
	case o.flat != nil:
		o.removeFlat(m)
		return
	}
	p := s.leaf
	p.list.remove(s.key)
	for p.above != nil && p.list.size == 0 {
		p.above.list.remove(p.key)
		p = p.above
	}
	*s = seat{}
	o.size--
}

// refresh moves the member to where its share has brought it.
func (o *order) refresh(m *member) {
	s := o.seat(m)
	switch {
	case s.leaf == nil:
		return
	case o.flat != nil:
		o.refreshFlat(m)
		return
	}
	if key := o.ranking.memberKey(m); key != s.key {
		s.leaf.list.move(s.key, key)
		s.key = key
	}
}

// refreshRole moves the role's places likewise.
func (o *order) refreshRole(r *role) {
	for _, p := range *o.placesOf(r) {
		if p.own.list.size > 0 {
			o.shift(p.own)
		}
		if p.list.size > 0 {
			o.shift(p)
		}
	}
}

// shift moves the place to where its share has brought it. One that stands alone has nothing to move past.
func (o *order) shift(p *place) {
	if p.above.list.size > 1 {
		o.rekey(p)
	}
}

func (o *order) rekey(p *place) {
	if key := o.key(p); key != p.key {
		p.above.list.move(p.key, key)
		p.key = key
	}
}

// refreshAll is refresh of everything, when all shares have changed at once.
func (o *order) refreshAll() {
	if o.flat != nil {
		o.refreshAllFlat()
		return
	}
	for number := range o.seats {
		if s := &o.seats[number]; s.leaf != nil {
			o.refresh(o.ranking.members[number])
		}
	}
	for _, p := range o.parts {
		if p != nil && p.above != nil && p.list.size > 0 {
			o.shift(p)
		}
	}
}

func (o *order) key(p *place) entry {
	if p.leaf {
		return entry{o.ranking.nextLeaf(p.role), p.role.own, ^p.number}
	}
	return entry{o.ranking.nextRole(p.role), p.role.served, ^p.number}
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

// leaf finds or makes the leaf of the role's own members in the lane.
func (o *order) leaf(l *lane, r *role) *place { return o.place(l, r).own }

func (o *order) place(l *lane, r *role) *place {
	for _, p := range *o.placesOf(r) {
		if p.lane == l {
			return p
		}
	}
	above := l.root
	if r.parent != nil {
		above = o.place(l, r.parent)
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
func (o *order) forget(r *role) {
	for _, p := range *o.placesOf(r) {
		for _, gone := range []*place{p.own, p} {
			o.parts[gone.number] = nil
			o.holes = append(o.holes, gone.number)
		}
	}
	*o.placesOf(r) = nil
}
