package books

import (
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// filter is what a refusal leaves behind with the agent: until then its member is not
// offered the agent, if the offer would hold no more than what was refused.
type filter struct {
	refused    api.Resources
	until      instant
	generation uint32 // of the member's filters; an older one is forgotten
}

// filters know when each filter ends.
type filters struct {
	ends  []end // a heap, the soonest first
	stale int   // ends whose filter is forgotten or replaced
}

type end struct {
	until         instant
	agent, member int32
}

// staleMax is how many stale ends are kept before they are swept, beside half of all.
const staleMax = 1024

// Refuse leaves a filter.
func (b *Books) Refuse(claim allocator.Claim, until time.Time) {
	a, m := b.find(claim)
	if m == nil {
		return
	}
	m.struck = false // who says how long it is not interested makes nobody wait
	i := b.instantOf(until)
	if claim.Resources.IsZero() || i <= b.now {
		return
	}
	old, known := a.filters[m.number]
	known = known && old.generation == b.generations[m.number]
	switch {
	case known && old.until >= i && covers(old.refused, claim.Resources):
		return
	case known:
		b.filters.stale++
	default:
		m.filters++
	}
	if a.filters == nil {
		a.filters = make(map[int32]filter)
	}
	a.filters[m.number] = filter{claim.Resources, i, b.generations[m.number]}
	b.filters.push(end{i, a.number, m.number})
	b.filters.sweep(b)
}

// filtered reports whether an offer of these resources is filtered, and until when.
func (b *Books) filtered(a *agent, m *member, offer api.Resources) (instant, bool) {
	if len(a.filters) == 0 || m.filters == 0 {
		return 0, false
	}
	f, known := a.filters[m.number]
	if !known || f.generation != b.generations[m.number] || f.until <= b.now {
		return 0, false
	}
	return f.until, covers(f.refused, offer)
}

// forget drops all filters of a member at once.
func (f *filters) forget(b *Books, m *member) {
	f.stale += m.filters
	m.filters = 0
	b.generations[m.number]++
	f.sweep(b)
}

func (f *filters) forgetAgent(b *Books, a *agent) {
	// order: irrelevant because it only counts
	for number, one := range a.filters {
		if one.generation == b.generations[number] {
			b.members[number].filters--
			f.stale++
		}
	}
	a.filters = nil
}

// expire ends the filters whose time has come; their members may take the agents again.
func (f *filters) expire(b *Books) {
	for len(f.ends) > 0 && f.ends[0].until <= b.now {
		e := f.pop()
		if a, m := b.ended(e); m != nil {
			delete(a.filters, e.member)
			m.filters--
			b.dirty.pair(b, a, m)
		} else {
			f.stale--
		}
	}
}

// ended returns whose filter ends then; nil when it is forgotten or replaced.
func (b *Books) ended(e end) (*agent, *member) {
	a := b.agents[e.agent]
	if a == nil {
		return nil, nil
	}
	one, known := a.filters[e.member]
	if !known || one.until != e.until || one.generation != b.generations[e.member] {
		return a, nil
	}
	return a, b.members[e.member]
}

// next is when the first filter ends.
func (f *filters) next(b *Books) (instant, bool) {
	for len(f.ends) > 0 {
		if _, m := b.ended(f.ends[0]); m != nil {
			return f.ends[0].until, true
		}
		f.pop()
		f.stale--
	}
	return 0, false
}

// sweep frees the memory of stale filters when they outnumber the others.
func (f *filters) sweep(b *Books) {
	if f.stale < staleMax || f.stale < len(f.ends)/2 {
		return
	}
	ends := f.ends
	f.ends, f.stale = make([]end, 0, len(ends)-f.stale), 0
	for _, e := range ends {
		a, m := b.ended(e)
		switch {
		case m != nil:
			f.push(e)
		case a != nil:
			if one, known := a.filters[e.member]; known && one.generation != b.generations[e.member] {
				delete(a.filters, e.member)
			}
		}
	}
}

func (e end) before(f end) bool {
	if e.until != f.until {
		return e.until < f.until
	}
	return e.agent < f.agent || e.agent == f.agent && e.member < f.member
}

func (f *filters) push(e end) {
	f.ends = append(f.ends, e)
	i := len(f.ends) - 1
	for i > 0 {
		above := (i - 1) / 2
		if !e.before(f.ends[above]) {
			break
		}
		f.ends[i] = f.ends[above]
		i = above
	}
	f.ends[i] = e
}

func (f *filters) pop() end {
	first := f.ends[0]
	last := len(f.ends) - 1
	e := f.ends[last]
	f.ends = f.ends[:last]
	i := 0
	for {
		below := 2*i + 1
		if below >= last {
			break
		}
		if below+1 < last && f.ends[below+1].before(f.ends[below]) {
			below++
		}
		if !f.ends[below].before(e) {
			break
		}
		f.ends[i] = f.ends[below]
		i = below
	}
	if last > 0 {
		f.ends[i] = e
	}
	return first
}
