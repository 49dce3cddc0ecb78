package engine

import (
	"cmp"
	"slices"
)

// bid is what one of a shape would cost on an agent.
type bid struct {
	agent   *agent
	victims []*task // nil = not to be had
	cost    cost
}

// cost is what sets of victims are compared by.
type cost struct {
	dearest Task // the one of them that the policy asks last
	count   int
	share   float64 // of all that they give up
}

// isCheaper reports whether a set of victims is asked rather than another: the one whose dearest is asked sooner,
// then the fewest, then those that give up least.
func (e *asker) isCheaper(c, d cost) bool {
	if order := e.policy.YieldsSooner(c.dearest, d.dearest); order != 0 {
		return order < 0
	}
	return c.count < d.count || c.count == d.count && c.share < d.share
}

func (e *asker) costOf(victims []*task) cost {
	c := cost{count: len(victims)}
	sum := e.turn.sum[:0]
	for i, t := range victims {
		e.turn.asked = e.kinds.count(e.turn.asked, t.claim.Resources, nil)
		sum.add(e.turn.asked)
		if one := taskOf(t); i == 0 || e.policy.YieldsSooner(one, c.dearest) > 0 {
			c.dearest = one
		}
	}
	c.share = e.share(sum)
	e.turn.sum = sum
	return c
}

func (e *asker) bid(m *member, s *shape, a *agent) bid {
	victims := e.victims(m, s, a)
	if len(victims) == 0 {
		return bid{agent: a}
	}
	return bid{a, victims, e.costOf(victims)}
}

// victims is the cheapest set of tasks on the agent whose end makes room for one of the
// shape; nil when there is none, or room without any.
func (e *asker) victims(m *member, s *shape, a *agent) []*task {
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
	candidates := e.candidates(a, m)
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

// compare orders tasks as the policy asks them.
func (e *asker) compare(x, y *task) int { return e.policy.YieldsSooner(taskOf(x), taskOf(y)) }

// one is the cheapest task that is enough alone and that no guarantee needs.
func (e *asker) one(candidates []*task, enough func(...*task) bool) []*task {
	var best []*task
	for _, t := range candidates {
		if set := []*task{t}; enough(t) && len(e.unpromised(set)) == 1 && (best == nil || e.isCheaper(e.costOf(set), e.costOf(best))) {
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
func (e *asker) fewest(pool []*task, enough func(...*task) bool) []*task {
	var best []*task
	try := func(set ...*task) {
		if enough(set...) && (best == nil || e.isCheaper(e.costOf(set), e.costOf(best))) {
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

// candidates are the agent's tasks that give way to the member, in the order in which the policy asks them.
func (e *asker) candidates(a *agent, m *member) []*task {
	var candidates []*task
	to := e.standing(m)
	for _, t := range a.tasks {
		if !t.asked && e.policy.Yields(taskOf(t), to) {
			candidates = append(candidates, t)
		}
	}
	slices.SortStableFunc(candidates, func(x, y *task) int {
		return cmp.Or(e.compare(x, y), cmp.Compare(x.claim.Task, y.claim.Task))
	})
	return candidates
}

// makeRoom reports whether the victims give the roles what their limits lack.
func (e *asker) makeRoom(set []*task, lacks []lack) bool {
	for _, l := range lacks {
		room := int64(0)
		for _, t := range set {
			if t.member.role.name.Within(l.role.name) {
				e.turn.asked = e.kinds.count(e.turn.asked, t.claim.Resources, nil)
				room += e.turn.asked.At(l.kind)
			}
		}
		if room < l.amount {
			return false
		}
	}
	return true
}

// unpromised leaves out victims whose end would take a role below its guarantee.
func (e *asker) unpromised(candidates []*task) []*task {
	if e.promises.count == 0 {
		return candidates
	}
	gone := make(map[*role]Amounts) // with the candidates that stand before
	return slices.DeleteFunc(candidates, func(t *task) bool {
		e.turn.asked = e.kinds.count(e.turn.asked, t.claim.Resources, nil)
		counted := e.turn.asked
		for r := t.member.role; r != nil; r = r.parent {
			for kind, x := range r.guarantee {
				if taken := counted.At(kind); taken > 0 && r.taken.At(kind)-r.leaving.At(kind)-gone[r].At(kind)-taken < x {
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
