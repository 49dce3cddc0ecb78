package books

import (
	"maps"
	"slices"

	"github.com/tenderhq/tender/api"
)

// Filter is what a refusal leaves with the agent. Until it ends, its member is not offered the agent, as long as the
// agent has no more for the member than when it was refused. It ends early when a task of its framework ends there, and
// when its member wants more than before.
type Filter struct {
	Refused    api.Resources // including what the member's demand left out of the offer, see seen
	Until      Instant
	generation uint32  // a filter of an older generation than its member's is forgotten
	Extended   bool    // it lasts longer than was asked for, because nothing of the offer was launched
	Next       *Filter // a further filter of the same member and agent; neither contains the other
}

// filters knows when each filter ends.
type filters struct {
	Ends  []end // a heap, the soonest first
	stale int   // number of ends whose filter is forgotten or replaced
	spare *Filter
}

type end struct {
	until         Instant
	agent, member int32
}

const (
	// StaleMax is how many stale ends are kept, beside half of all ends, before they are swept.
	StaleMax = 1024
	// filtersMax bounds the filters of one member on one agent. A further one replaces the oldest, so that the member
	// may be offered the agent too soon.
	filtersMax = 8
	// filtersSlab is how many filters are allocated at once.
	filtersSlab = 64
)

// Filter adds a filter.
func (b *Books) Filter(a *Agent, m *Member, one Filter) {
	if !b.Filters.admit(b, a, m, one.Refused, one.Until) {
		return
	}
	f := b.Filters.fresh()
	*f = one
	f.generation, f.Next = b.generations[m.Number], a.Filters[m.Number]
	if a.Filters == nil {
		a.Filters = make(map[int32]*Filter)
	}
	a.Filters[m.Number] = f
	b.countFilters(m, 1)
	b.Filters.push(end{one.Until, a.Number, m.Number})
	b.Filters.sweep(b)
}

// countFilters counts filters of a member that are in force, also for its principal.
func (b *Books) countFilters(m *Member, more int) {
	m.Filters += more
	b.CountFilters(m.Framework.Spec.Principal, more)
}

// CountFilters counts filters of a principal's frameworks; not for the empty principal.
func (b *Books) CountFilters(principal string, more int) {
	if principal == "" || more == 0 {
		return
	}
	if b.FiltersOf[principal] += more; b.FiltersOf[principal] == 0 {
		delete(b.FiltersOf, principal)
	}
}

// admit drops the filters that a new one makes superfluous, and reports whether the new one is needed itself.
func (f *filters) admit(b *Books, a *Agent, m *Member, refused api.Resources, until Instant) bool {
	count := 0
	for one := a.Filters[m.Number]; one != nil; one = one.Next {
		count++
		if b.InForce(one, m) && one.Until >= until && Covers(one.Refused, refused) {
			return false
		}
	}
	f.drop(b, a, m, func(one *Filter) bool {
		count--
		return !b.InForce(one, m) || one.Until <= until && Covers(refused, one.Refused) || count >= filtersMax-1
	})
	return true
}

func (b *Books) InForce(f *Filter, m *Member) bool {
	return f.generation == b.generations[m.Number] && f.Until > b.Now
}

// drop forgets the filters of the member on the agent for which `which` returns true.
func (f *filters) drop(b *Books, a *Agent, m *Member, which func(*Filter) bool) {
	first := a.Filters[m.Number]
	if first == nil {
		return
	}
	for at := &first; *at != nil; {
		one := *at
		if !which(one) {
			at = &one.Next
			continue
		}
		if one.generation == b.generations[m.Number] {
			b.countFilters(m, -1)
			f.stale++
		}
		*at = one.Next
		f.recycle(one)
	}
	if first == nil {
		delete(a.Filters, m.Number)
	} else {
		a.Filters[m.Number] = first
	}
}

func (f *filters) fresh() *Filter {
	if f.spare == nil {
		slab := make([]Filter, filtersSlab)
		for i := range slab {
			slab[i].Next, f.spare = f.spare, &slab[i]
		}
	}
	one := f.spare
	f.spare = one.Next
	return one
}

func (f *filters) recycle(one *Filter) { *one, f.spare = Filter{Next: f.spare}, one }

// Filtered returns the filter that hides this offer, or nil.
func (b *Books) Filtered(a *Agent, m *Member, offer api.Resources) *Filter {
	if m.Filters == 0 {
		return nil
	}
	for one := a.Filters[m.Number]; one != nil; one = one.Next {
		if b.InForce(one, m) && Covers(one.Refused, offer) {
			return one
		}
	}
	return nil
}

// Forget forgets all filters of a member at once. Their memory is freed by a sweep, or when the member refuses the
// agent again.
func (f *filters) Forget(b *Books, m *Member) {
	f.stale += m.Filters
	b.countFilters(m, -m.Filters)
	b.generations[m.Number]++
	f.sweep(b)
}

func (f *filters) ForgetAgent(b *Books, a *Agent) {
	for _, number := range slices.Sorted(maps.Keys(a.Filters)) {
		f.drop(b, a, b.memberNumbered(number), func(*Filter) bool { return true })
	}
	a.Filters = nil
}

// memberNumbered returns the member or, if it is gone, a stand-in for which all its filters are of an older generation.
func (b *Books) memberNumbered(number int32) *Member {
	if m := b.Members[number]; m != nil {
		return m
	}
	return &Member{Number: number}
}

// Lift ends all filters of the framework on the agent, because a task of the framework has ended there, which may have
// been the reason for them.
func (f *filters) Lift(b *Books, a *Agent, of *Framework) {
	if len(a.Filters) == 0 {
		return
	}
	for _, m := range of.Members {
		f.drop(b, a, m, func(*Filter) bool { return true })
	}
}

// Expire ends the filters whose time is over, and marks their agents for their members.
func (f *filters) Expire(b *Books) {
	for len(f.Ends) > 0 && f.Ends[0].until <= b.Now {
		x := f.pop()
		a, one := b.ended(x)
		f.stale-- // it was counted once; drop counts it as stale
		if one == nil {
			continue
		}
		m := b.Members[x.member]
		f.drop(b, a, m, func(other *Filter) bool { return other == one })
		b.Dirty.Pair(a, m)
	}
	f.stale = max(f.stale, 0)
}

// ended returns the filter that the end belongs to, with its agent; nil if the filter is forgotten or replaced.
func (b *Books) ended(x end) (*Agent, *Filter) {
	a := b.Agents[x.agent]
	if a == nil {
		return nil, nil
	}
	for one := a.Filters[x.member]; one != nil; one = one.Next {
		if one.Until == x.until && one.generation == b.generations[x.member] {
			return a, one
		}
	}
	return a, nil
}

// Next returns when the first filter ends; false: there is none.
func (f *filters) Next(b *Books) (Instant, bool) {
	for len(f.Ends) > 0 {
		if _, one := b.ended(f.Ends[0]); one != nil {
			return f.Ends[0].until, true
		}
		f.pop()
		f.stale = max(f.stale-1, 0)
	}
	return 0, false
}

// sweep frees the memory of stale filters when there are more of them than of others.
func (f *filters) sweep(b *Books) {
	if f.stale < StaleMax || f.stale < len(f.Ends)/2 {
		return
	}
	ends := f.Ends
	f.Ends = make([]end, 0, len(ends)/2)
	for _, x := range ends {
		a, one := b.ended(x)
		if one != nil {
			f.push(x)
		} else if a != nil {
			m := b.memberNumbered(x.member)
			f.drop(b, a, m, func(one *Filter) bool { return one.generation != b.generations[x.member] })
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
	f.Ends = append(f.Ends, e)
	i := len(f.Ends) - 1
	for i > 0 {
		above := (i - 1) / 2
		if !e.before(f.Ends[above]) {
			break
		}
		f.Ends[i] = f.Ends[above]
		i = above
	}
	f.Ends[i] = e
}

func (f *filters) pop() end {
	first := f.Ends[0]
	last := len(f.Ends) - 1
	e := f.Ends[last]
	f.Ends = f.Ends[:last]
	i := 0
	for {
		below := 2*i + 1
		if below >= last {
			break
		}
		if below+1 < last && f.Ends[below+1].before(f.Ends[below]) {
			below++
		}
		if !f.Ends[below].before(e) {
			break
		}
		f.Ends[i] = f.Ends[below]
		i = below
	}
	if last > 0 {
		f.Ends[i] = e
	}
	return first
}
