package books

import (
	"slices"

	"github.com/tenderhq/tender/api"
)

// Held is what a member holds on an agent: an open offer, or what tasks and executors have, as many of them as have the
// same. Each agent has two lists of them. What is given back is most often exactly one of these values; then nothing has
// to be computed. Offers are in the order in which they came. What tasks hold is in no order that means anything, and
// the list is short however many tasks there are, because they are mostly of few sizes.
//
// Holds: an agent's free and held resources are its total, unless it is oversold.
type Held struct {
	Resources api.Resources
	Since     Instant // of an offer: when it was made
	Member    int32
	count     int32 // how many tasks and executors hold so much each; of an offer 1
	fruitful  bool  // of an offer: something of it was launched
}

// holdings is a list of what is held. Of offers it keeps the order; others join those that are the same.
type holdings struct {
	list  []Held
	joins bool
}

func (h *holdings) add(one Held) {
	if h.joins {
		for i := range h.list {
			if other := &h.list[i]; other.Member == one.Member && isSame(other.Resources, one.Resources) {
				other.count += one.count
				return
			}
		}
	}
	h.list = append(h.list, one)
}

func (h *holdings) remove(i int) {
	if !h.joins {
		h.list = slices.Delete(h.list, i, i+1)
		return
	}
	last := len(h.list) - 1
	h.list[i], h.list[last] = h.list[last], Held{}
	h.list = h.list[:last]
}

// isSame reports whether two amounts are equal, never only by their address.
func isSame(r, s api.Resources) bool { return Same(r, s) || r.Equal(s) }

// holdingsOf returns the agent's open offers, or what tasks and executors hold of it.
func (a *Agent) holdingsOf(offers bool) *holdings {
	if offers {
		return &a.offered
	}
	a.claimed.joins = true
	return &a.claimed
}

// Offers returns the agent's open offers.
func (a *Agent) Offers() []Held { return a.offered.list }

// Held yields everything that is held on the agent, one by one: first open offers, then what tasks and executors hold.
func (a *Agent) Held(yield func(Held) bool) {
	for _, list := range [...][]Held{a.offered.list, a.claimed.list} {
		for i := range list {
			for range list[i].count {
				if !yield(list[i]) {
					return
				}
			}
		}
	}
}

// HoldsNothing reports whether nobody holds anything on the agent.
func (a *Agent) HoldsNothing() bool { return len(a.offered.list)+len(a.claimed.list) == 0 }

// LastHolder returns a member that holds something on the agent; false if nobody does.
func (a *Agent) LastHolder() (member int32, some bool) {
	for _, list := range [...][]Held{a.offered.list, a.claimed.list} {
		if len(list) > 0 {
			return list[len(list)-1].Member, true
		}
	}
	return 0, false
}

// HasOffer reports whether the member has an open offer of the agent.
func (a *Agent) HasOffer(m *Member) bool {
	for i := range a.offered.list {
		if a.offered.list[i].Member == m.Number {
			return true
		}
	}
	return false
}

// Hold notes that a member holds something from now on: an open offer, or what a task or an executor has.
func (a *Agent) Hold(m *Member, resources api.Resources, offer bool, now Instant) {
	m.Holdings++
	a.holdingsOf(offer).add(Held{Resources: resources, Since: now, Member: m.Number, count: 1})
}

// LetGo removes resources from the member's offers, or from what else it holds, as far as they are there, and returns
// what was removed. fruitful: something of such an offer was launched.
func (a *Agent) LetGo(m *Member, resources api.Resources, offer bool) (gone api.Resources, fruitful bool) {
	from := a.holdingsOf(offer)
	i := from.firstThat(m, func(r api.Resources) bool { return isSame(r, resources) })
	if i < 0 && offer {
		if first := inSuccession(from.list, m, resources); first >= 0 {
			return from.letPartsGo(m, resources, first)
		}
	}
	if i < 0 {
		i = from.firstThat(m, func(r api.Resources) bool { return r.Contains(resources) })
	}
	if i < 0 {
		return from.letPartsGo(m, resources, 0)
	}
	i = from.single(i)
	h := &from.list[i]
	fruitful, h.fruitful = h.fruitful, true
	if h.Resources = Less(h.Resources, resources); h.Resources.IsZero() {
		m.Holdings--
		from.remove(i)
	}
	return resources, fruitful
}

// single takes one out of those that hold the same, and returns where it is.
func (h *holdings) single(i int) int {
	if h.list[i].count == 1 {
		return i
	}
	h.list[i].count--
	one := h.list[i]
	one.count = 1
	h.list = append(h.list, one)
	return len(h.list) - 1
}

// letPartsGo does the same if the resources are spread over several entries, from entry `first` on. Entries from which
// nothing is removed stay as they are.
func (h *holdings) letPartsGo(m *Member, resources api.Resources, first int) (gone api.Resources, fruitful bool) {
	for i := first; i < len(h.list) && !resources.IsZero(); i++ {
		if h.list[i].Member != m.Number {
			continue
		}
		part := h.list[i].Resources.Intersect(resources)
		if part.IsZero() {
			continue
		}
		at := h.single(i)
		one := &h.list[at]
		fruitful, one.fruitful = fruitful || one.fruitful, true
		one.Resources, resources = Less(one.Resources, part), Less(resources, part)
		gone = gone.Plus(part)
		if at != i {
			i-- // others hold the same there
		}
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
func (h *holdings) firstThat(m *Member, fits func(api.Resources) bool) int {
	for i := range h.list {
		if h.list[i].Member == m.Number && fits(h.list[i].Resources) {
			return i
		}
	}
	return -1
}

// BearFruit marks the member's offers of the agent as answered with a launch. If there are several, it is unknown for
// which of them the launch was.
func (a *Agent) BearFruit(m *Member) {
	for i := range a.offered.list {
		if one := &a.offered.list[i]; one.Member == m.Number {
			one.fruitful = true
		}
	}
}

// dropEmpty removes the member's entries that are empty.
func (h *holdings) dropEmpty(m *Member) {
	h.list = slices.DeleteFunc(h.list, func(one Held) bool {
		if !one.Resources.IsZero() {
			return false
		}
		m.Holdings -= int(one.count)
		return true
	})
}

// SumOf returns the sum of what the member holds on the agent: of its offers only, or of everything.
func (a *Agent) SumOf(m *Member, offersOnly bool) api.Resources {
	var sum api.Resources
	add := func(list []Held) {
		for i := range list {
			if list[i].Member == m.Number {
				for range list[i].count {
					sum = sum.Plus(list[i].Resources)
				}
			}
		}
	}
	if add(a.offered.list); !offersOnly {
		add(a.claimed.list)
	}
	return sum
}

// LetAllGo removes everything that the member holds on the agent, and returns it.
func (a *Agent) LetAllGo(m *Member) api.Resources {
	sum := a.SumOf(m, false)
	for _, offers := range [...]bool{true, false} {
		from := a.holdingsOf(offers)
		for i := range from.list {
			if one := &from.list[i]; one.Member == m.Number {
				one.Resources = api.Resources{}
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
