package engine

import (
	"cmp"
	"slices"
	"time"
)

// bid is what one of a shape would cost on an agent.
type bid struct {
	agent   *agent
	victims []*task // nil = not to be had
	cost    cost
}

// cost orders sets of victims by the dearest of them: lowest rank, then youngest. Then
// the fewest, then those that give up least.
type cost struct {
	rank  int
	since time.Time // of the dearest
	count int
	share float64 // dominant, of all that they give up
}

func (c cost) less(d cost) bool {
	switch {
	case c.rank != d.rank:
		return c.rank < d.rank
	case !c.since.Equal(d.since):
		return c.since.After(d.since)
	case c.count != d.count:
		return c.count < d.count
	}
	return c.share < d.share
}

func (e *Engine) costOf(victims []*task) cost {
	c := cost{count: len(victims)}
	sum := e.turn.sum[:0]
	for i, t := range victims {
		e.turn.asked = e.kinds.count(e.turn.asked, t.claim.Resources, nil)
		sum.add(e.turn.asked)
		rank := e.rank(t.member.role)
		if i == 0 || rank > c.rank || rank == c.rank && t.claim.Since.Before(c.since) {
			c.rank, c.since = rank, t.claim.Since
		}
	}
	c.share = sum.dominant(e.total)
	e.turn.sum = sum
	return c
}

func (e *Engine) bid(m *member, s *shape, a *agent) bid {
	victims := e.victims(m, s, a)
	if len(victims) == 0 {
		return bid{agent: a}
	}
	return bid{a, victims, e.costOf(victims)}
}

// victims is the cheapest set of tasks on the agent whose end makes room for one of the
// shape; nil when there is none, or room without any.
func (e *Engine) victims(m *member, s *shape, a *agent) []*task {
	lacks := e.lacks(m, s)
	role := m.role.name
	have := a.unkept().UsableBy(role)
	enough := func(set ...*task) bool {
		all := have
		for _, t := range set {
			all = all.Plus(t.claim.Resources.UsableBy(role))
		}
		_, _, fits := all.Carve(s.spec.Resources)
		return fits && e.makeRoom(set, lacks)
	}
	if enough() {
		return nil
	}
	candidates := e.candidates(a, e.rank(m.role))
	together := e.unpromised(slices.Clone(candidates))
	n := 1
	for n <= len(together) && !enough(together[:n]...) {
		n++
	}
	if n > len(together) { // not together; but one alone leaves more of a guarantee
		return e.one(candidates, enough)
	}
	for n < len(together) && e.compare(together[n], together[n-1]) == 0 {
		n++
	}
	dearest := together[n-1]
	candidates = slices.DeleteFunc(candidates, func(t *task) bool { return e.compare(t, dearest) > 0 })
	if set := e.one(candidates, enough); set != nil {
		return set
	}
	return e.fewest(together[:n], enough)
}

// compare orders tasks by lower rank, then by youth.
func (e *Engine) compare(x, y *task) int {
	return cmp.Or(cmp.Compare(e.rank(x.member.role), e.rank(y.member.role)), y.claim.Since.Compare(x.claim.Since))
}

// one is the cheapest task that is enough alone and that no guarantee needs.
func (e *Engine) one(candidates []*task, enough func(...*task) bool) []*task {
	var best []*task
	for _, t := range candidates {
		if set := []*task{t}; enough(t) && len(e.unpromised(set)) == 1 && (best == nil || e.costOf(set).less(e.costOf(best))) {
			best = set
		}
	}
	return best
}

// pairsMax bounds of how many candidates all pairs are tried.
const pairsMax = 16

// fewest picks of the pool, which is enough as a whole and no dearer than it must be,
// but no one of it alone, the fewest that are enough, of those that give up least:
// exactly for two, and for more by leaving out whom it can, the dearest and smallest first.
func (e *Engine) fewest(pool []*task, enough func(...*task) bool) []*task {
	var best []*task
	try := func(set ...*task) {
		if enough(set...) && (best == nil || e.costOf(set).less(e.costOf(best))) {
			best = slices.Clone(set)
		}
	}
	for i := 0; len(pool) <= pairsMax && i < len(pool); i++ {
		for _, other := range pool[i+1:] {
			try(pool[i], other)
		}
	}
	if best != nil {
		return best
	}
	order := slices.Clone(pool)
	slices.SortStableFunc(order, func(x, y *task) int {
		return cmp.Or(e.compare(y, x), cmp.Compare(e.costOf([]*task{x}).share, e.costOf([]*task{y}).share))
	})
	set := slices.Clone(pool)
	for _, t := range order {
		rest := slices.DeleteFunc(slices.Clone(set), func(other *task) bool { return other == t })
		if enough(rest...) {
			set = rest
		}
	}
	return set
}

// candidates are the agent's tasks of lower rank, the cheapest first.
func (e *Engine) candidates(a *agent, rank int) []*task {
	var candidates []*task
	for _, t := range a.tasks {
		if !t.asked && e.rank(t.member.role) < rank {
			candidates = append(candidates, t)
		}
	}
	slices.SortStableFunc(candidates, func(x, y *task) int {
		return cmp.Or(e.compare(x, y), cmp.Compare(x.claim.Task, y.claim.Task))
	})
	return candidates
}

// makeRoom reports whether the victims give the roles what their limits lack.
func (e *Engine) makeRoom(set []*task, lacks []lack) bool {
	for _, l := range lacks {
		room := int64(0)
		for _, t := range set {
			if t.member.role.name.Within(l.role.name) {
				e.turn.asked = e.kinds.count(e.turn.asked, t.claim.Resources, nil)
				room += e.turn.asked.at(l.kind)
			}
		}
		if room < l.amount {
			return false
		}
	}
	return true
}

// unpromised leaves out victims whose end would take a role below its guarantee.
func (e *Engine) unpromised(candidates []*task) []*task {
	if e.promises.count == 0 {
		return candidates
	}
	gone := make(map[*role]amounts) // with the candidates that stand before
	return slices.DeleteFunc(candidates, func(t *task) bool {
		e.turn.asked = e.kinds.count(e.turn.asked, t.claim.Resources, nil)
		counted := e.turn.asked
		for r := t.member.role; r != nil; r = r.parent {
			for kind, x := range r.guarantee {
				if taken := counted.at(kind); taken > 0 && r.taken.at(kind)-r.leaving.at(kind)-gone[r].at(kind)-taken < x {
					return true
				}
			}
		}
		for r := t.member.role; r != nil; r = r.parent {
			sum := gone[r]
			sum.add(counted)
			gone[r] = sum
		}
		return false
	})
}
