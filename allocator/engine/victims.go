package engine

import (
	"cmp"
	"slices"

	"github.com/tenderhq/tender/allocator/engine/internal/books"
)

// bid says what room for one of a shape would cost on an agent.
type bid struct {
	agent   *books.Agent
	victims []*books.Task // nil = there can be no room
	cost    cost
}

// cost is what sets of victims are compared by.
type cost struct {
	dearest Task // the one of them that the policy asks last
	count   int
	share   float64 // share of everything that they give up
}

// isCheaper reports whether the first set of victims is preferred: the one whose dearest task is asked sooner, then the
// one with fewer tasks, then the one that gives up less.
func (e *asker) isCheaper(c, d cost) bool {
	if order := e.policy.YieldsSooner(c.dearest, d.dearest); order != 0 {
		return order < 0
	}
	return c.count < d.count || c.count == d.count && c.share < d.share
}

func (e *asker) costOf(victims []*books.Task) cost {
	c := cost{count: len(victims)}
	sum := e.Turn.Sum[:0]
	for i, t := range victims {
		e.Turn.Asked = e.Kinds.Count(e.Turn.Asked, t.Claim.Resources, nil)
		sum.Add(e.Turn.Asked)
		if one := taskOf(t); i == 0 || e.policy.YieldsSooner(one, c.dearest) > 0 {
			c.dearest = one
		}
	}
	c.share = e.shareOf(sum)
	e.Turn.Sum = sum
	return c
}

func (e *asker) bid(m *books.Member, s *books.Shape, a *books.Agent) bid {
	victims := e.victims(m, s, a)
	if len(victims) == 0 {
		return bid{agent: a}
	}
	return bid{a, victims, e.costOf(victims)}
}

// victims returns the cheapest set of tasks on the agent whose end makes room for one of the shape; nil if there is
// none, or if there is room anyway.
func (e *asker) victims(m *books.Member, s *books.Shape, a *books.Agent) []*books.Task {
	lacks := e.lacksOf(m, s)
	role := m.Role.Name
	have := a.Unkept().UsableBy(role)
	enough := func(set ...*books.Task) bool {
		all := have
		for _, t := range set {
			all = all.Plus(t.Claim.Resources.UsableBy(role))
		}
		_, _, fits := all.Carve(s.Spec.Resources)
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
	if n > len(together) { // together they are not enough, but one alone may leave more of a guarantee
		return e.one(candidates, enough)
	}
	for n < len(together) && e.compare(together[n], together[n-1]) == 0 {
		n++
	}
	dearest := together[n-1]
	candidates = slices.DeleteFunc(candidates, func(t *books.Task) bool { return e.compare(t, dearest) > 0 })
	if set := e.one(candidates, enough); set != nil {
		return set
	}
	return e.fewest(together[:n], enough)
}

// compare orders tasks as the policy asks them back.
func (e *asker) compare(x, y *books.Task) int { return e.policy.YieldsSooner(taskOf(x), taskOf(y)) }

// one returns the cheapest task that is enough by itself and that no guarantee needs.
func (e *asker) one(candidates []*books.Task, enough func(...*books.Task) bool) []*books.Task {
	var best []*books.Task
	for _, t := range candidates {
		if set := []*books.Task{t}; enough(t) && len(e.unpromised(set)) == 1 && (best == nil || e.isCheaper(e.costOf(set), e.costOf(best))) {
			best = set
		}
	}
	return best
}

// pairsMax bounds the number of candidates up to which all pairs are tried.
const pairsMax = 16

// fewest returns the smallest set of tasks of the pool that is enough, and among those the one that gives up least. The
// pool is enough as a whole and no dearer than necessary, but none of its tasks is enough alone. For two tasks the
// result is exact; for more it leaves out tasks as long as it can, the dearest and smallest first.
func (e *asker) fewest(pool []*books.Task, enough func(...*books.Task) bool) []*books.Task {
	var best []*books.Task
	try := func(set ...*books.Task) {
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
	slices.SortStableFunc(order, func(x, y *books.Task) int {
		return cmp.Or(e.compare(y, x), cmp.Compare(e.costOf([]*books.Task{x}).share, e.costOf([]*books.Task{y}).share))
	})
	set := slices.Clone(pool)
	for _, t := range order {
		rest := slices.DeleteFunc(slices.Clone(set), func(other *books.Task) bool { return other == t })
		if enough(rest...) {
			set = rest
		}
	}
	return set
}

// candidates returns the agent's tasks that give way to the member, in the order in which the policy asks them back.
func (e *asker) candidates(a *books.Agent, m *books.Member) []*books.Task {
	var candidates []*books.Task
	to := e.standing(m)
	for _, t := range a.Tasks {
		if !t.Asked && e.policy.Yields(taskOf(t), to) {
			candidates = append(candidates, t)
		}
	}
	slices.SortStableFunc(candidates, func(x, y *books.Task) int {
		return cmp.Or(e.compare(x, y), cmp.Compare(x.Claim.Task, y.Claim.Task))
	})
	return candidates
}

// makeRoom reports whether the victims give the roles what their limits lack.
func (e *asker) makeRoom(set []*books.Task, lacks []lack) bool {
	for _, l := range lacks {
		room := int64(0)
		for _, t := range set {
			if t.Member.Role.Name.Within(l.role.Name) {
				e.Turn.Asked = e.Kinds.Count(e.Turn.Asked, t.Claim.Resources, nil)
				room += e.Turn.Asked.At(l.kind)
			}
		}
		if room < l.amount {
			return false
		}
	}
	return true
}

// unpromised leaves out victims whose end would take a role below its guarantee.
func (e *asker) unpromised(candidates []*books.Task) []*books.Task {
	if e.Promises.Count == 0 {
		return candidates
	}
	gone := make(map[*books.Role]books.Amounts) // together with the candidates before it
	return slices.DeleteFunc(candidates, func(t *books.Task) bool {
		e.Turn.Asked = e.Kinds.Count(e.Turn.Asked, t.Claim.Resources, nil)
		counted := e.Turn.Asked
		for r := t.Member.Role; r != nil; r = r.Parent {
			for kind, x := range r.Guarantee {
				if taken := counted.At(kind); taken > 0 && r.Taken.At(kind)-r.Leaving.At(kind)-gone[r].At(kind)-taken < x {
					return true
				}
			}
		}
		for r := t.Member.Role; r != nil; r = r.Parent {
			sum := gone[r]
			sum.Add(counted)
			gone[r] = sum
		}
		return false
	})
}
