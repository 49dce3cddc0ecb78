package engine

import (
	"github.com/tenderhq/tender/api"
)

// held is one thing that a member holds on an agent. They stand in one short list for
// each agent, as they came: what goes is most often one of the values that came, and
// then nothing is computed.
// Holds: an agent's free and held resources are its total, unless it is oversold.
type held struct {
	resources api.Resources
	since     instant // when it was taken
	member    int32
	offer     bool // an open offer; else a task or an executor
	fruitful  bool // of an offer: something of it was launched
}

// holds reports whether the member has an open offer of the agent.
func (a *agent) hasOffer(m *member) bool {
	if a.offers == 0 {
		return false
	}
	for i := range a.held {
		if a.held[i].offer && a.held[i].member == m.number {
			return true
		}
	}
	return false
}

func (a *agent) hold(m *member, resources api.Resources, offer bool, now instant) {
	m.holdings++
	if offer {
		a.offers++
	}
	a.held = append(a.held, held{resources, now, m.number, offer, false})
}

// letGo takes resources out of the member's offers (or what else it holds), as much of
// them as there is, and returns that; fruitful if something of such an offer was launched.
func (a *agent) letGo(m *member, resources api.Resources, offer bool) (gone api.Resources, fruitful bool) {
	for _, fits := range []func(api.Resources) bool{
		func(r api.Resources) bool { return same(r, resources) },
		resources.Equal,
		func(r api.Resources) bool { return r.Contains(resources) },
	} {
		for i := range a.held {
			h := &a.held[i]
			if h.member != m.number || h.offer != offer || !fits(h.resources) {
				continue
			}
			fruitful = h.fruitful
			h.resources = less(h.resources, resources)
			h.fruitful = true
			a.dropEmpty(m)
			return resources, fruitful
		}
	}
	for i := range a.held { // in pieces
		h := &a.held[i]
		if h.member == m.number && h.offer == offer {
			part := h.resources.Intersect(resources)
			fruitful, h.fruitful = fruitful || h.fruitful, true
			h.resources, resources = less(h.resources, part), less(resources, part)
			gone = gone.Plus(part)
		}
	}
	a.dropEmpty(m)
	return gone, fruitful
}

// bearFruit marks the member's offers as answered with a launch: which of several of one
// agent it came from can't be told.
func (a *agent) bearFruit(m *member) {
	for i := range a.held {
		if h := &a.held[i]; h.offer && h.member == m.number {
			h.fruitful = true
		}
	}
}

// dropEmpty forgets what holds nothing any more.
func (a *agent) dropEmpty(m *member) {
	kept := a.held[:0]
	for _, h := range a.held {
		if h.resources.IsZero() {
			m.holdings--
			if h.offer {
				a.offers--
			}
		} else {
			kept = append(kept, h)
		}
	}
	clear(a.held[len(kept):])
	a.held = kept
}

// sumOf is what the member holds on the agent; of the offers only, or of all.
func (a *agent) sumOf(m *member, offersOnly bool) api.Resources {
	var sum api.Resources
	for _, h := range a.held {
		if h.member == m.number && (h.offer || !offersOnly) {
			sum = sum.Plus(h.resources)
		}
	}
	return sum
}

// letAllGo takes out all that the member holds on the agent, and returns it.
func (a *agent) letAllGo(m *member) api.Resources {
	sum := a.sumOf(m, false)
	for i := range a.held {
		if a.held[i].member == m.number {
			a.held[i].resources = api.Resources{}
		}
	}
	a.dropEmpty(m)
	return sum
}
