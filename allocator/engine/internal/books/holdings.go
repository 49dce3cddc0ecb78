package books

import (
	"github.com/tenderhq/tender/api"
)

// Held is one thing that a member holds on an agent. Each agent has two lists of them, its open offers and what tasks
// and executors hold, each in the order in which they came. What is given back is most often exactly one of these
// values; then nothing has to be computed.
//
// Holds: an agent's free and held resources are its total, unless it is oversold.
type Held struct {
	Resources api.Resources
	Since     Instant // when it was taken
	Member    int32
	fruitful  bool // of an offer: something of it was launched
}

// holdings is a list from which the first entries are removed most often. Either there are few, or many thousands that
// come and go all the time; so a gap is closed from the nearer end.
type holdings struct {
	list []Held
	gone int // number of empty entries at the front of the list
}

func (h *holdings) all() []Held { return h.list[h.gone:] }

func (h *holdings) add(one Held) {
	if len(h.list) == cap(h.list) && 2*h.gone > len(h.list) {
		left := copy(h.list, h.all())
		clear(h.list[left:])
		h.list, h.gone = h.list[:left], 0
	}
	h.list = append(h.list, one)
}

func (h *holdings) remove(i int) {
	all := h.all()
	if i < len(all)/2 {
		copy(all[1:i+1], all)
		all[0] = Held{}
		h.gone++
		return
	}
	copy(all[i:], all[i+1:])
	h.list[len(h.list)-1] = Held{}
	h.list = h.list[:len(h.list)-1]
	if len(all) == 1 {
		h.list, h.gone = h.list[:0], 0
	}
}

// holdingsOf returns the agent's open offers, or what tasks and executors hold of it.
func (a *Agent) holdingsOf(offers bool) *holdings {
	if offers {
		return &a.offered
	}
	return &a.claimed
}

// Offers returns the agent's open offers.
func (a *Agent) Offers() []Held { return a.offered.all() }

// Held yields everything that is held on the agent: first open offers, then what tasks and executors hold.
func (a *Agent) Held(yield func(Held) bool) {
	for _, list := range [...][]Held{a.offered.all(), a.claimed.all()} {
		for i := range list {
			if !yield(list[i]) {
				return
			}
		}
	}
}

// HoldsNothing reports whether nobody holds anything on the agent.
func (a *Agent) HoldsNothing() bool { return len(a.offered.all())+len(a.claimed.all()) == 0 }

// LastHolder returns a member that holds something on the agent; false if nobody does.
func (a *Agent) LastHolder() (member int32, some bool) {
	for _, list := range [...][]Held{a.offered.all(), a.claimed.all()} {
		if len(list) > 0 {
			return list[len(list)-1].Member, true
		}
	}
	return 0, false
}

// HasOffer reports whether the member has an open offer of the agent.
func (a *Agent) HasOffer(m *Member) bool {
	for i, all := 0, a.offered.all(); i < len(all); i++ {
		if all[i].Member == m.Number {
			return true
		}
	}
	return false
}

// Hold notes that a member holds something from now on: an open offer, or what a task or an executor has.
func (a *Agent) Hold(m *Member, resources api.Resources, offer bool, now Instant) {
	m.Holdings++
	a.holdingsOf(offer).add(Held{resources, now, m.Number, false})
}

// LetGo removes resources from the member's offers, or from what else it holds, as far as they are there, and returns
// what was removed. fruitful: something of such an offer was launched.
func (a *Agent) LetGo(m *Member, resources api.Resources, offer bool) (gone api.Resources, fruitful bool) {
	from := a.holdingsOf(offer)
	all := from.all()
	i := firstThat(all, m, func(r api.Resources) bool { return Same(r, resources) || r.Equal(resources) }) // never only by their address
	if i < 0 && offer {
		if first := inSuccession(all, m, resources); first >= 0 {
			return from.letPartsGo(m, resources, first)
		}
	}
	if i < 0 {
		i = firstThat(all, m, func(r api.Resources) bool { return r.Contains(resources) })
	}
	if i < 0 {
		return from.letPartsGo(m, resources, 0)
	}
	h := &all[i]
	fruitful, h.fruitful = h.fruitful, true
	if h.Resources = Less(h.Resources, resources); h.Resources.IsZero() {
		m.Holdings--
		from.remove(i)
	}
	return resources, fruitful
}

// letPartsGo does the same if the resources are spread over several entries, from entry `first` on. Entries from which
// nothing is removed stay as they are.
func (h *holdings) letPartsGo(m *Member, resources api.Resources, first int) (gone api.Resources, fruitful bool) {
	all := h.all()
	for i := first; i < len(all) && !resources.IsZero(); i++ {
		one := &all[i]
		if one.Member != m.Number {
			continue
		}
		part := one.Resources.Intersect(resources)
		if part.IsZero() {
			continue
		}
		fruitful, one.fruitful = fruitful || one.fruitful, true
		one.Resources, resources = Less(one.Resources, part), Less(resources, part)
		gone = gone.Plus(part)
	}
	h.dropEmpty(m)
	return gone, fruitful
}

// inSuccession returns the first of consecutive entries of the member that together are exactly these resources, as the
// parts of one offer are; -1 if there are none.
func inSuccession(all []Held, m *Member, resources api.Resources) int {
	for first := range all {
		var sum api.Resources
		for _, h := range all[first:] {
			if h.Member != m.Number {
				continue
			}
			if sum = sum.Plus(h.Resources); !resources.Contains(sum) {
				break
			}
			if sum.Equal(resources) {
				return first
			}
		}
	}
	return -1
}

// firstThat returns the index of the member's first entry for which fits returns true; -1 if there is none.
func firstThat(all []Held, m *Member, fits func(api.Resources) bool) int {
	for i := range all {
		if all[i].Member == m.Number && fits(all[i].Resources) {
			return i
		}
	}
	return -1
}

// BearFruit marks the member's offers of the agent as answered with a launch. If there are several, it is unknown for
// which of them the launch was.
func (a *Agent) BearFruit(m *Member) {
	for i, all := 0, a.offered.all(); i < len(all); i++ {
		if all[i].Member == m.Number {
			all[i].fruitful = true
		}
	}
}

// dropEmpty removes the member's entries that are empty.
func (h *holdings) dropEmpty(m *Member) {
	kept := h.list[:0]
	for _, one := range h.all() {
		if one.Resources.IsZero() {
			m.Holdings--
		} else {
			kept = append(kept, one)
		}
	}
	clear(h.list[len(kept):])
	h.list, h.gone = kept, 0
}

// SumOf returns the sum of what the member holds on the agent: of its offers only, or of everything.
func (a *Agent) SumOf(m *Member, offersOnly bool) api.Resources {
	var sum api.Resources
	add := func(all []Held) {
		for i := range all {
			if all[i].Member == m.Number {
				sum = sum.Plus(all[i].Resources)
			}
		}
	}
	if add(a.offered.all()); !offersOnly {
		add(a.claimed.all())
	}
	return sum
}

// LetAllGo removes everything that the member holds on the agent, and returns it.
func (a *Agent) LetAllGo(m *Member) api.Resources {
	sum := a.SumOf(m, false)
	for _, offers := range [...]bool{true, false} {
		from := a.holdingsOf(offers)
		for i, all := 0, from.all(); i < len(all); i++ {
			if all[i].Member == m.Number {
				all[i].Resources = api.Resources{}
			}
		}
		from.dropEmpty(m)
	}
	return sum
}

// GiveBack makes free what a member has given back.
func (b *Books) GiveBack(a *Agent, m *Member, back api.Resources, counted Amounts) {
	b.Charge(m, back, counted, -1)
	switch {
	case a.Oversold:
		b.Refree(a)
	case a.Free.IsZero():
		b.SetFree(a, back, counted)
	default:
		b.SetFree(a, a.Free.Plus(back), nil)
	}
}

// Refree computes what is free anew, after more was taken than there was, or a part of that was given back.
func (b *Books) Refree(a *Agent) {
	b.SetFree(a, a.FreeOf(a.Spec.Total), nil)
}

// FreeOf returns what nobody holds of a total, and notes whether more is held than that.
func (a *Agent) FreeOf(total api.Resources) api.Resources {
	free := total
	a.Oversold = false
	for h := range a.Held {
		a.Oversold = a.Oversold || !Covers(free, h.Resources)
		free = free.Without(h.Resources)
	}
	return free
}

// Charge adds what a member takes (sign +1) or gives back (-1) to its sums, its
// framework's and those of the roles above.
func (b *Books) Charge(m *Member, held api.Resources, counted Amounts, sign int64) {
	b.chargeCounted(m, counted, sign)
	items := held.Items()
	for i := range items {
		if item := &items[i]; item.Reserved != "" && !item.Revocable {
			b.Idle(b.RoleOf(item.Reserved), b.Kinds.Number(item.Name), -sign*sizeOf(item))
		}
	}
}

func (b *Books) chargeCounted(m *Member, counted Amounts, sign int64) {
	if sign < 0 {
		m.Taken.Sub(counted)
		m.Framework.Taken.Sub(counted)
	} else {
		m.Taken.Add(counted)
		m.Framework.Taken.Add(counted)
	}
	for r := m.Role; r != nil; r = r.Parent {
		if sign < 0 {
			r.Taken.Sub(counted)
		} else {
			r.Taken.Add(counted)
		}
		b.Fill(r)
	}
	if m.Role.Promise.Near {
		b.RecountNeed(m.Role)
	}
	if sign < 0 {
		b.Uncut(m.Role)
	}
}
