package books

import (
	"cmp"
	"slices"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// keeps are what preemption is under way for. Each agent has at most one.
type keeps struct {
	list  []*keep
	stale bool // something has changed by which preemption may help or be of no use any more
	wake  instant
	wakes bool
}

// keep holds back one task's resources on an agent, while victims end and until they
// were offered once to the demand that asked for them (R27).
type keep struct {
	agent   *agent
	of      *member
	member  int32
	shape   *shape
	need    api.Resources
	victims []*task
}

// preempts is how a member has fared with what was preempted for it.
type preempts struct {
	offered bool    // it holds an offer of what was kept for it
	strikes int     // such offers that came back untouched, one after the other
	until   instant // it preempts no more before
}

// preemptPause is how long a demand preempts nothing after it declined what was freed
// for it; it doubles each time up to preemptPauseMax.
const (
	preemptPause    = time.Second
	preemptPauseMax = 10 * time.Minute
)

func (b *Books) preemptAgain(m *member) {
	m.preempts = preempts{}
	b.keeps.stale = true
}

func (b *Books) preemptLater(m *member) {
	p := &m.preempts
	if !p.offered {
		return
	}
	p.offered = false
	p.until = b.now + instant(min(preemptPause<<min(p.strikes, 20), preemptPauseMax))
	p.strikes++
}

// due drops what is kept in vain, and reports whether preemption must be looked at.
func (k *keeps) due(b *Books) bool {
	if !b.options.Preempts {
		return false
	}
	if k.wakes && k.wake <= b.now {
		k.stale = true
	}
	if k.stale {
		for _, one := range slices.Clone(k.list) {
			if !one.useful() {
				k.end(b, one)
				b.dirty.agent(b, one.agent)
			}
		}
	}
	return k.stale
}

func (k *keeps) next() (instant, bool) { return k.wake, k.wakes }

// useful reports whether the demand still wants what is kept.
func (k *keep) useful() bool {
	return k.agent.offerable && k.of.role != nil && k.of.listed && k.of.demand != nil &&
		slices.Contains(k.of.demand.shapes, k.shape) && k.shape.left() > 0
}

func (k *keeps) end(b *Books, one *keep) {
	one.agent.keep = nil
	one.shape.asked--
	for r := one.of.role; r != nil; r = r.parent {
		r.asked.sub(one.shape.ask)
	}
	k.list = slices.DeleteFunc(k.list, func(other *keep) bool { return other == one })
}

// drop ends what is kept on an agent that goes away.
func (k *keeps) drop(a *agent) {
	if a.keep != nil {
		k.list = slices.DeleteFunc(k.list, func(other *keep) bool { return other == a.keep })
		a.keep.shape.asked--
		for r := a.keep.of.role; r != nil; r = r.parent {
			r.asked.sub(a.keep.shape.ask)
		}
		a.keep = nil
	}
	k.stale = true
}

// serveKeep offers what was kept once it is there; once all victims have ended without
// enough, it is kept no longer.
func (b *Books) serveKeep(a *agent, o *order) {
	k := a.keep
	if k == nil {
		return
	}
	if !k.useful() || !b.mayRun(k.of, k.shape, a) {
		b.keeps.end(b, k)
		return
	}
	if b.hold && k.of.role.limited {
		return
	}
	offer, why := b.usable(k.of, a)
	if why == granted {
		offer, why = b.bounded(k.of, a, offer, false)
	}
	part, _, fits := offer.Carve(k.need)
	if fits && b.filtered(a, k.of, part) != nil {
		b.keeps.end(b, k)
		return
	}
	switch {
	case why == granted && fits:
		b.keeps.end(b, k)
		k.of.preempts.offered = true
		b.turn.plan = planned{k.member, k.shape, 1}
		b.propose(a, k.of, part, o)
	case !slices.ContainsFunc(k.victims, func(t *task) bool { return !t.gone }):
		b.keeps.end(b, k)
	}
}

// preempt asks tasks of lower rank back for demand that nothing free can meet: in the
// order of the members, for one task after the other.
func (b *Books) preempt() []allocator.Inverse {
	if !b.options.Preempts || !b.keeps.stale || b.hold {
		return nil
	}
	b.keeps.stale, b.keeps.wakes = false, false
	var asked []allocator.Inverse
	for _, l := range b.all.lanes {
		b.preemptFor(l.root, &asked)
	}
	return asked
}

func (b *Books) preemptFor(p *place, asked *[]allocator.Inverse) {
	for _, chunk := range p.list.chunks {
		for _, e := range chunk {
			if e.id < 0 {
				b.preemptFor(b.all.parts[^e.id], asked)
			} else {
				b.preemptForMember(b.members[e.id], asked)
			}
		}
	}
}

func (b *Books) preemptForMember(m *member, asked *[]allocator.Inverse) {
	if m.demand == nil {
		return
	}
	if m.preempts.until > b.now {
		if !b.keeps.wakes || m.preempts.until < b.keeps.wake {
			b.keeps.wake, b.keeps.wakes = m.preempts.until, true
		}
		return
	}
	for _, s := range m.demand.shapes {
		for s.left() > s.asked && b.mayTake(m, s) {
			a, victims := b.cheapest(m, s)
			if a == nil {
				break
			}
			*asked = append(*asked, b.ask(m, s, a, victims))
		}
	}
}

// ask notes what is under way and puts it into words for the core.
func (b *Books) ask(m *member, s *shape, a *agent, victims []*task) allocator.Inverse {
	k := &keep{agent: a, of: m, member: m.number, shape: s, need: s.spec.Resources, victims: victims}
	a.keep = k
	b.keeps.list = append(b.keeps.list, k)
	s.asked++
	for r := m.role; r != nil; r = r.parent {
		r.asked.add(s.ask)
	}
	inverse := allocator.Inverse{For: m.framework.spec.ID, Role: m.role.name, Agent: a.spec.ID}
	for _, t := range victims {
		b.leaving(t, +1)
		inverse.Victims = append(inverse.Victims, t.claim)
	}
	return inverse
}

// mayTake reports whether limits and guarantees would let the member have one more of
// the shape, so that nothing is preempted for what could not be offered anyway.
func (b *Books) mayTake(m *member, s *shape) bool {
	ask, known := b.askOf(s)
	if !known {
		return false
	}
	for kind, x := range ask {
		if most := m.framework.most; kind < len(most) && x > most[kind] {
			return false
		}
	}
	for r := m.role; r != nil; r = r.parent {
		for kind, x := range ask {
			if kind < len(r.limit) && r.limit[kind] != unbounded && r.taken.at(kind)+r.asked.at(kind)+x > r.limit[kind] {
				return false
			}
		}
	}
	if b.promises.count > 0 {
		relief := b.relief(m.role, b.turn.relief)
		b.turn.relief = relief
		for kind, x := range ask {
			if x > 0 && b.promises.need.at(kind) > relief.at(kind) {
				return false
			}
		}
	}
	return true
}

// cost orders sets of victims: lowest rank, then youngest, then fewest.
type cost struct {
	rank   int
	oldest time.Time
	count  int
}

func (c cost) less(d cost) bool {
	if c.rank != d.rank {
		return c.rank < d.rank
	}
	if !c.oldest.Equal(d.oldest) {
		return c.oldest.After(d.oldest)
	}
	return c.count < d.count
}

// cheapest finds the agent where one of the shape costs least.
func (b *Books) cheapest(m *member, s *shape) (*agent, []*task) {
	rank := b.rank(m.role)
	var best *agent
	var victims []*task
	var price cost
	for _, a := range b.agents {
		if a == nil || len(a.tasks) == 0 || a.keep != nil || !b.mayRun(m, s, a) {
			continue
		}
		set := b.victims(m, s, a, rank)
		if len(set) == 0 {
			continue
		}
		if c := b.costOf(set); best == nil || c.less(price) {
			best, victims, price = a, set, c
		}
	}
	return best, victims
}

// mayRun reports whether the agent could hold the shape at all, if it were empty.
func (b *Books) mayRun(m *member, s *shape, a *agent) bool {
	if !a.offerable || !b.passes(m.gate, a) || !b.passes(s.gate, a) || s.spec.OnlyPreferred && !s.isNear(a) {
		return false
	}
	return b.filtered(a, m, s.spec.Resources) == nil
}

func (b *Books) costOf(victims []*task) cost {
	c := cost{rank: b.rank(victims[0].member.role), oldest: victims[0].claim.Since, count: len(victims)}
	for _, t := range victims[1:] {
		c.rank = max(c.rank, b.rank(t.member.role))
		if t.claim.Since.Before(c.oldest) {
			c.oldest = t.claim.Since
		}
	}
	return c
}

// victims is the cheapest set of tasks on the agent whose end makes room for one of the
// shape; nil when there is none, or room without any.
func (b *Books) victims(m *member, s *shape, a *agent, rank int) []*task {
	role := m.role.name
	have := a.open.UsableBy(role)
	if _, _, fits := have.Carve(s.spec.Resources); fits {
		return nil
	}
	var candidates []*task
	for _, t := range a.tasks {
		if !t.asked && b.rank(t.member.role) < rank {
			candidates = append(candidates, t)
		}
	}
	slices.SortStableFunc(candidates, func(x, y *task) int {
		return cmp.Or(cmp.Compare(b.rank(x.member.role), b.rank(y.member.role)), y.claim.Since.Compare(x.claim.Since), cmp.Compare(x.claim.Task, y.claim.Task))
	})
	room := func(set []*task) bool {
		all := have
		for _, t := range set {
			all = all.Plus(t.claim.Resources.UsableBy(role))
		}
		_, _, fits := all.Carve(s.spec.Resources)
		return fits
	}
	set := b.unpromised(candidates)
	enough := slices.IndexFunc(set, func(t *task) bool { return room(set[:slices.Index(set, t)+1]) })
	if enough < 0 {
		return nil
	}
	set = slices.Clone(set[:enough+1])
	for i := len(set) - 2; i >= 0; i-- { // spare the dearest first that are not needed
		if rest := slices.Delete(slices.Clone(set), i, i+1); room(rest) {
			set = rest
		}
	}
	return set
}

// unpromised leaves out victims whose end would take a role below its guarantee.
func (b *Books) unpromised(candidates []*task) []*task {
	if b.promises.count == 0 {
		return candidates
	}
	gone := make(map[*role]amounts) // with the candidates that stand before
	return slices.DeleteFunc(candidates, func(t *task) bool {
		b.counted = b.kinds.count(b.counted, t.claim.Resources, nil)
		for r := t.member.role; r != nil; r = r.parent {
			for kind, x := range r.guarantee {
				if taken := b.counted.at(kind); taken > 0 && r.taken.at(kind)-r.leaving.at(kind)-gone[r].at(kind)-taken < x {
					return true
				}
			}
		}
		for r := t.member.role; r != nil; r = r.parent {
			sum := gone[r]
			sum.add(b.counted)
			gone[r] = sum
		}
		return false
	})
}
