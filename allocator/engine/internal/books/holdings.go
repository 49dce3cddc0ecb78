package books

import (
	"github.com/tenderhq/tender/api"
)

// held is one thing that a member holds on an agent. They stand in one short list for
// each agent, as they came: what goes is most often one of the values that came, and
// then nothing is computed.
// Holds: an agent's free and held resources are its total, unless it is oversold.
type held struct {
	Resources api.Resources
	Since     Instant // when it was taken
	Member    int32
	Offer     bool // an open offer; else a task or an executor
	fruitful  bool // of an offer: something of it was launched
}

// holds reports whether the member has an open offer of the agent.
func (a *Agent) HasOffer(m *Member) bool {
	if a.Offers == 0 {
		return false
	}
	for i := range a.Held {
		if a.Held[i].Offer && a.Held[i].Member == m.Number {
			return true
		}
	}
	return false
}

func (a *Agent) Hold(m *Member, resources api.Resources, offer bool, now Instant) {
	m.Holdings++
	if offer {
		a.Offers++
	}
	a.Held = append(a.Held, held{resources, now, m.Number, offer, false})
}

// LetGo takes resources out of the member's offers (or what else it holds), as much of
// them as there is, and returns that; fruitful if something of such an offer was launched.
func (a *Agent) LetGo(m *Member, resources api.Resources, offer bool) (gone api.Resources, fruitful bool) {
	for _, fits := range []func(api.Resources) bool{
		func(r api.Resources) bool { return Same(r, resources) || r.Equal(resources) }, // the first of several: never by where they lie in memory
		func(r api.Resources) bool { return r.Contains(resources) },
	} {
		for i := range a.Held {
			h := &a.Held[i]
			if h.Member != m.Number || h.Offer != offer || !fits(h.Resources) {
				continue
			}
			fruitful = h.fruitful
			h.Resources = Less(h.Resources, resources)
			h.fruitful = true
			a.dropEmpty(m)
			return resources, fruitful
		}
	}
	for i := range a.Held { // in pieces
		h := &a.Held[i]
		if h.Member == m.Number && h.Offer == offer {
			part := h.Resources.Intersect(resources)
			fruitful, h.fruitful = fruitful || h.fruitful, true
			h.Resources, resources = Less(h.Resources, part), Less(resources, part)
			gone = gone.Plus(part)
		}
	}
	a.dropEmpty(m)
	return gone, fruitful
}

// BearFruit marks the member's offers as answered with a launch: which of several of one
// agent it came from can't be told.
func (a *Agent) BearFruit(m *Member) {
	for i := range a.Held {
		if h := &a.Held[i]; h.Offer && h.Member == m.Number {
			h.fruitful = true
		}
	}
}

// dropEmpty forgets what holds nothing any more.
func (a *Agent) dropEmpty(m *Member) {
	kept := a.Held[:0]
	for _, h := range a.Held {
		if h.Resources.IsZero() {
			m.Holdings--
			if h.Offer {
				a.Offers--
			}
		} else {
			kept = append(kept, h)
		}
	}
	clear(a.Held[len(kept):])
	a.Held = kept
}

// SumOf is what the member holds on the agent; of the offers only, or of all.
func (a *Agent) SumOf(m *Member, offersOnly bool) api.Resources {
	var sum api.Resources
	for _, h := range a.Held {
		if h.Member == m.Number && (h.Offer || !offersOnly) {
			sum = sum.Plus(h.Resources)
		}
	}
	return sum
}

// LetAllGo takes out all that the member holds on the agent, and returns it.
func (a *Agent) LetAllGo(m *Member) api.Resources {
	sum := a.SumOf(m, false)
	for i := range a.Held {
		if a.Held[i].Member == m.Number {
			a.Held[i].Resources = api.Resources{}
		}
	}
	a.dropEmpty(m)
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

// Refree counts anew what is free, when more was taken than there was, or was given back.
func (b *Books) Refree(a *Agent) {
	free := a.Spec.Total
	a.Oversold = false
	for i := range a.Held {
		a.Oversold = a.Oversold || !Covers(free, a.Held[i].Resources)
		free = free.Without(a.Held[i].Resources)
	}
	b.SetFree(a, free, nil)
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
