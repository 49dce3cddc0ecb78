package engine

import (
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// filter is what a refusal leaves behind with the agent: until then its member is not
// offered the agent, while it has no more for the member than when it was refused. It ends
// before when a task of its framework ends there, and when its member wants more than it did.
type filter struct {
	refused    api.Resources // with what the member's demand left out of the offer, see seen
	until      instant
	generation uint32  // of the member's filters; an older one is forgotten
	short      bool    // longer than was asked for: an offer came back with nothing launched
	next       *filter // of the same member and agent, neither within the other
}

// back is the offer that came back last with nothing launched, for the refusal that follows if its
// framework gave it back itself.
type back struct {
	agent  *agent
	member *member
}

// filters know when each filter ends.
type filters struct {
	ends  []end // a heap, the soonest first
	stale int   // ends whose filter is forgotten or replaced
	spare *filter
}

type end struct {
	until         instant
	agent, member int32
}

const (
	// staleMax is how many stale ends are kept before they are swept, beside half of all.
	staleMax = 1024
	// filtersMax bounds the filters of one member and agent. One more replaces the
	// oldest: the member may see the agent again too soon.
	filtersMax = 8
	// filtersSlab is how many are allocated together.
	filtersSlab = 64
)

// Refuse leaves a filter.
func (e *ledger) Refuse(claim allocator.Claim, until time.Time) {
	a, m := e.find(claim)
	if m == nil {
		return
	}
	one := filter{refused: a.refusedOf(m, claim.Resources)}
	if !until.IsZero() {
		one.until = e.instantOf(until)
		m.struck = false // who says how long it is not interested makes nobody wait
	}
	if again := a.lastAt + e.again; e.back.agent == a && e.back.member == m && again > one.until {
		one.until, one.short = again, true
	}
	if e.back = (back{}); !claim.Resources.IsZero() && one.until > e.now {
		e.filter(a, m, one)
	}
}

// filter leaves a filter.
func (e *books) filter(a *agent, m *member, one filter) {
	if !e.filters.admit(e, a, m, one.refused, one.until) {
		return
	}
	f := e.filters.fresh()
	*f = one
	f.generation, f.next = e.generations[m.number], a.filters[m.number]
	if a.filters == nil {
		a.filters = make(map[int32]*filter)
	}
	a.filters[m.number] = f
	m.filters++
	e.filters.push(end{one.until, a.number, m.number})
	e.filters.sweep(e)
}

// admit drops the filters that a new one makes needless, and reports whether it is
// needed itself.
func (f *filters) admit(e *books, a *agent, m *member, refused api.Resources, until instant) bool {
	count := 0
	for one := a.filters[m.number]; one != nil; one = one.next {
		count++
		if e.inForce(one, m) && one.until >= until && covers(one.refused, refused) {
			return false
		}
	}
	f.drop(e, a, m, func(one *filter) bool {
		count--
		return !e.inForce(one, m) || one.until <= until && covers(refused, one.refused) || count >= filtersMax-1
	})
	return true
}

func (e *books) inForce(f *filter, m *member) bool {
	return f.generation == e.generations[m.number] && f.until > e.now
}

// drop forgets those filters of the member on the agent that which picks.
func (f *filters) drop(e *books, a *agent, m *member, which func(*filter) bool) {
	first := a.filters[m.number]
	if first == nil {
		return
	}
	for at := &first; *at != nil; {
		one := *at
		if !which(one) {
			at = &one.next
			continue
		}
		if one.generation == e.generations[m.number] {
			m.filters--
			f.stale++
		}
		*at = one.next
		f.recycle(one)
	}
	if first == nil {
		delete(a.filters, m.number)
	} else {
		a.filters[m.number] = first
	}
}

func (f *filters) fresh() *filter {
	if f.spare == nil {
		slab := make([]filter, filtersSlab)
		for i := range slab {
			slab[i].next, f.spare = f.spare, &slab[i]
		}
	}
	one := f.spare
	f.spare = one.next
	return one
}

func (f *filters) recycle(one *filter) { *one, f.spare = filter{next: f.spare}, one }

// hidden reports whether a filter hides the agent, of which the member could have so much more
// than this turn has given it already.
func (e *decider) hidden(a *agent, m *member, whole api.Resources) bool {
	return len(a.filters) > 0 && m.filters > 0 && e.filtered(a, m, whole.Plus(e.turn.proposed(m))) != nil
}

// filtered is the filter that hides such an offer, or nil.
func (e *books) filtered(a *agent, m *member, offer api.Resources) *filter {
	if m.filters == 0 {
		return nil
	}
	for one := a.filters[m.number]; one != nil; one = one.next {
		if e.inForce(one, m) && covers(one.refused, offer) {
			return one
		}
	}
	return nil
}

// forget drops all filters of a member at once; their memory is freed by a sweep, or
// when the member refuses the agent again.
func (f *filters) forget(e *books, m *member) {
	f.stale += m.filters
	m.filters = 0
	e.generations[m.number]++
	f.sweep(e)
}

func (f *filters) forgetAgent(e *books, a *agent) {
	for _, number := range slices.Sorted(maps.Keys(a.filters)) {
		f.drop(e, a, e.memberNumbered(number), func(*filter) bool { return true })
	}
	a.filters = nil
}

// memberNumbered stands in for a member that is gone: its filters are of an older generation.
func (e *books) memberNumbered(number int32) *member {
	if m := e.members[number]; m != nil {
		return m
	}
	return &member{number: number}
}

// lift ends all filters of the framework on the agent: one of its tasks has ended there, which
// may have been the reason.
func (f *filters) lift(e *books, a *agent, of *framework) {
	if len(a.filters) == 0 {
		return
	}
	for _, m := range of.members {
		f.drop(e, a, m, func(*filter) bool { return true })
	}
}

// expire ends the filters whose time has come; their members may take the agents again.
func (f *filters) expire(e *books) {
	for len(f.ends) > 0 && f.ends[0].until <= e.now {
		x := f.pop()
		a, one := e.ended(x)
		f.stale-- // it was pushed once; drop counts it as stale
		if one == nil {
			continue
		}
		m := e.members[x.member]
		f.drop(e, a, m, func(other *filter) bool { return other == one })
		e.dirty.pair(a, m)
	}
	f.stale = max(f.stale, 0)
}

// ended returns the filter that ends then, with its agent; nil when it is forgotten or
// replaced.
func (e *books) ended(x end) (*agent, *filter) {
	a := e.agents[x.agent]
	if a == nil {
		return nil, nil
	}
	for one := a.filters[x.member]; one != nil; one = one.next {
		if one.until == x.until && one.generation == e.generations[x.member] {
			return a, one
		}
	}
	return a, nil
}

// next is when the first filter ends.
func (f *filters) next(e *books) (instant, bool) {
	for len(f.ends) > 0 {
		if _, one := e.ended(f.ends[0]); one != nil {
			return f.ends[0].until, true
		}
		f.pop()
		f.stale = max(f.stale-1, 0)
	}
	return 0, false
}

// sweep frees the memory of stale filters when they outnumber the others.
func (f *filters) sweep(e *books) {
	if f.stale < staleMax || f.stale < len(f.ends)/2 {
		return
	}
	ends := f.ends
	f.ends = make([]end, 0, len(ends)/2)
	for _, x := range ends {
		a, one := e.ended(x)
		if one != nil {
			f.push(x)
		} else if a != nil {
			m := e.memberNumbered(x.member)
			f.drop(e, a, m, func(one *filter) bool { return one.generation != e.generations[x.member] })
		}
	}
	f.stale = 0
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
