package books

import (
	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// turn is the state of looking at one agent, and memory that is used again.
type turn struct {
	on        bool
	owed      bool // only what somebody's roles are guaranteed and lack is offered
	number    uint64
	occasion  occasion
	admitted  admission         // of what is put by
	putBy     putBy             // of the agent at hand
	resumed   *resumed          // the agent at hand was put by before
	plan      planned           // of the last portion of stated demand
	whole     api.Resources     // what the last portion could have been, had no demand capped it
	began     api.Resources     // what the agent had open when its turn began
	proposals []allocator.Claim // of this round
	members   []int32           // to whom
	first     int               // where the agent's own begin

	own, change, offer, rest, relief, asked, floor amounts
	rooms                                          []room
	guests                                         []*member
}

// putBy is for whom an agent is put by, if it is: a member, and which of its shapes.
type putBy struct {
	member *member
	shapes []*shape
}

// resumed is the turn of an agent that was put by in the middle of it.
type resumed struct {
	began     api.Resources
	proposals map[int32]int // by number of member
}

// serve offers what the agent has, member by member, until nobody takes more, or it is put by for somebody.
func (b *Books) serve(a *agent, o *order, at occasion) (isPutBy bool) {
	if !a.offerable {
		return false
	}
	t := &b.turn
	t.on, t.occasion = true, at
	t.number++
	t.first = len(t.proposals)
	t.began = a.open
	if t.resumed = nil; len(b.resumed) > 0 {
		if t.resumed = b.resumed[a.number]; t.resumed != nil {
			t.began = t.resumed.began
		}
	}
	if len(a.keeps) > 0 {
		b.serveKeeps(a, o)
	}
	t.putBy.member = nil
	for t.putBy.member == nil && !a.open.IsZero() && o.size > 0 && !b.floor.under(a) && (b.serveOwed(a, o) || b.serveOrder(a, o)) {
	}
	t.on = false
	if t.putBy.member == nil {
		return false
	}
	b.postpone(a)
	return true
}

// serveOwed asks the members of roles that lack something of their guarantee.
func (b *Books) serveOwed(a *agent, o *order) bool {
	for _, chunk := range b.promises.owed.chunks {
		for _, e := range chunk {
			r := b.promises.roles[e.id]
			if o.flat != nil && b.serveFlat(a, o, r) {
				return true
			}
			for _, l := range o.lanes {
				for _, p := range r.places[o.which] {
					if p.lane == l && b.servePlace(a, o, p, true) {
						return true
					}
				}
			}
		}
	}
	return false
}

func (b *Books) serveOrder(a *agent, o *order) bool {
	if o.flat != nil {
		return b.serveFlat(a, o, nil)
	}
	for _, l := range o.lanes {
		if b.servePlace(a, o, l.root, false) {
			return true
		}
	}
	return false
}

// servePlace asks the members below the place in order, until one takes something.
func (b *Books) servePlace(a *agent, o *order, p *place, owed bool) bool {
	for _, chunk := range p.list.chunks {
		for i := range chunk {
			id := chunk[i].id
			if id < 0 {
				if b.serveBelow(a, o, o.parts[^id], owed) {
					return true
				}
				continue
			}
			if b.serveMember(a, b.members[id], o, owed) {
				return true
			}
		}
	}
	return false
}

// serveMember asks one member, and reports whether it took something or the agent is put by for it.
func (b *Books) serveMember(a *agent, m *member, o *order, owed bool) bool {
	if m.passed == b.turn.number {
		return false
	}
	offer, why := b.portion(m, a, owed)
	switch why {
	case granted:
		b.propose(a, m, offer, o)
		return true
	case isPutBy:
		return true
	}
	if !owed && (a.plain || why != isFiltered) { // else another cut may not be hidden
		m.passed = b.turn.number
	}
	return false
}

// serveBelow passes by a role that is at its limit, with all below it.
func (b *Books) serveBelow(a *agent, o *order, p *place, owed bool) bool {
	if p.role.full && a.plain {
		p.role.cut = true
		return false
	}
	return b.servePlace(a, o, p, owed)
}
