package books

import (
	"github.com/tenderhq/tender/api"
)

// Held is one thing that a member holds on an agent. They stand in two lists for each agent, its open offers and what
// tasks and executors have, each as they came: what goes is most often one of the values that came, and then nothing
// is computed.
// Holds: an agent's free and held resources are its total, unless it is oversold.
type Held struct {
	Resources api.Resources
	Since     Instant // when it was taken
	Member    int32
	fruitful  bool // of an offer: something of it was launched
}

// holdings are a list from which the first ones go most often. They are few, or many thousands that come and go all the
// time, so what goes is closed up from the nearer end.
type holdings struct {
	list []Held
	gone int // how many at the front of the list are empty
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

// holdingsOf are the agent's open offers, or what tasks and executors have of it.
func (a *Agent) holdingsOf(offers bool) *holdings {
	if offers {
		return &a.offered
	}
	return &a.claimed
}

// Offers are the agent's open offers.
func (a *Agent) Offers() []Held { return a.offered.all() }

// Held is all that is held on the agent: open offers, then what tasks and executors have.
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

// LastHolder is a member that holds something on the agent; false when nobody does.
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

// Hold notes what a member has from now on: an open offer, or what a task or an executor has.
func (a *Agent) Hold(m *Member, resources api.Resources, offer bool, now Instant) {
	m.Holdings++
	a.holdingsOf(offer).add(Held{resources, now, m.Number, false})
}

// LetGo takes resources out of the member's offers (or what else it holds), as much of
// them as there is, and returns that; fruitful if something of such an offer was launched.
func (a *Agent) LetGo(m *Member, resources api.Resources, offer bool) (gone api.Resources, fruitful bool) {
	from := a.holdingsOf(offer)
	all := from.all()
	i := firstThat(all, m, func(r api.Resources) bool { return Same(r, resources) || r.Equal(resources) }) // never by where they lie in memory
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

// letPartsGo does that where they lie in several of them, beginning with the first of these. Those of which nothing is
// taken stay as they are.
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

// inSuccession is where those begin which the member was given one after the other and which are so much together, as the
// parts of one offer are; -1 when there are none.
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

// firstThat is the first that the member holds and that fits; -1 when none does.
func firstThat(all []Held, m *Member, fits func(api.Resources) bool) int {
	for i := range all {
		if all[i].Member == m.Number && fits(all[i].Resources) {
			return i
		}
	}
	return -1
}

// BearFruit marks the member's offers of the agent as answered with a launch. Which one of several the launch was for
// can't be told.
func (a *Agent) BearFruit(m *Member) {
	for i, all := 0, a.offered.all(); i < len(all); i++ {
		if all[i].Member == m.Number {
			all[i].fruitful = true
		}
	}
}

// dropEmpty forgets what the member holds nothing of any more.
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

// SumOf is what the member holds on the agent; of the offers only, or of all.
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

// LetAllGo takes out all that the member holds on the agent, and returns it.
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

// GiveBack makes free what a member has let go.
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

// Refree computes anew what is free, when more was taken than there was, or some of that was given back.
func (b *Books) Refree(a *Agent) {
	b.SetFree(a, a.FreeOf(a.Spec.Total), nil)
}

// FreeOf is what nobody holds of a total, and notes whether more is held than that.
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
