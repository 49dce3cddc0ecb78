package taskset

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/pack"
	"github.com/tenderhq/tender/internal/work"
)

// pile holds a group's wishes of one priority that ask for the same, the oldest first.
type pile struct {
	key    pileKey
	wishes []*wish
	count  int // how many of its wishes still wait
}

// pileKey is what the wishes of a pile have in common.
type pileKey struct {
	priority int
	shape    string // see [work.Wants]
	copies   bool
	avoid    api.AgentID
}

func (q *waiting) queueWish(w *wish) {
	g := w.item.group
	alone := w.task
	alone.Executor = nil
	shape := q.wants.Add(work.Want{
		Shape: api.Shape{Resources: pack.Ask(w.task), Count: 1, Spread: q.spreadOfShapes(), Group: w.task.Group},
		Role:  g.role.name, Priority: w.item.Priority, Executor: hostOf(w.task), BesideRunning: pack.Ask(alone),
	})
	key := pileKey{w.item.Priority, shape, w.copy, w.avoid}
	p := g.piles[key]
	if p == nil {
		p = &pile{key: key}
		g.piles[key] = p
	}
	w.pile = p
	p.wishes = append(p.wishes, w)
	p.count++
}

// unqueueWish counts the wish out of its pile. The wish stays in the pile until it is at the front.
func (q *waiting) unqueueWish(w *wish) {
	g := w.item.group
	p := w.pile
	p.count--
	for len(p.wishes) > 0 && p.wishes[0].gone {
		p.wishes = p.wishes[1:]
	}
	if p.count == 0 {
		delete(g.piles, p.key)
	}
	q.wants.Remove(p.key.shape, 1)
}

// Offers implements [framework.Scheduler].
func (s *Set) Offers(_ context.Context, offers []api.Offer) (answers []api.Answer) {
	s.runWork(func(time.Time) { answers = s.state.waiting.answerOffers(offers, s.state.known) })
	return answers
}

func (q *waiting) answerOffers(offers []api.Offer, known bool) []api.Answer {
	bins := pack.Bins(offers)
	for _, bin := range bins {
		if known {
			q.learnPlaces(bin)
			for _, r := range q.rolesNamed(bin.Offer.Role) {
				r.delay.Fill(bin)
			}
		}
	}
	if known {
		q.packBins(bins)
	}
	answers := make([]api.Answer, len(bins))
	for i, bin := range bins {
		answers[i], _ = bin.Answer()
		if len(bin.Tasks) == 0 {
			answers[i].Operations = nil
		}
		answers[i].Filter = q.filterOf(bin)
	}
	return answers
}

// learnPlaces counts tasks of earlier processes in the place of their agent, once an offer has told what that is.
func (q *waiting) learnPlaces(bin *pack.Bin) {
	q.homeless = slices.DeleteFunc(q.homeless, func(a *attempt) bool {
		if a.Agent != bin.Offer.Agent {
			return false
		}
		a.item.group.spread.Put(bin, api.Task{ID: a.Task})
		a.item.group.apart.Put(bin, api.Task{ID: a.Task})
		return true
	})
}

// packBins puts waiting tasks into the bins, one at a time: the highest priority first, and of one priority for the group
// with the fewest running tasks.
func (q *waiting) packBins(bins []*pack.Bin) {
	var priorities []int         // mostly one
	for _, g := range q.groups { // order: irrelevant because they are sorted
		for key := range g.piles { // order: likewise
			if !slices.Contains(priorities, key.priority) {
				priorities = append(priorities, key.priority)
			}
		}
	}
	slices.Sort(priorities)
	names := slices.Sorted(maps.Keys(q.groups))
	for _, priority := range slices.Backward(priorities) {
		q.packEqual(names, priority, bins)
	}
}

// packEqual puts the wishes of one priority into the bins.
func (q *waiting) packEqual(names []string, priority int, bins []*pack.Bin) {
	var open []*group
	for _, name := range names {
		if g := q.groups[name]; len(g.piles) > 0 {
			open = append(open, g)
		}
	}
	for len(open) > 0 {
		least := 0
		for i, g := range open {
			if len(g.live) < len(open[least].live) {
				least = i
			}
		}
		if !q.packOne(open[least], priority, bins) {
			open = slices.Delete(open, least, least+1)
		}
	}
}

// packOne places the group's oldest wish of the priority that fits into some bin; false: none fits.
func (q *waiting) packOne(g *group, priority int, bins []*pack.Bin) bool {
	piles := make([]*pile, 0, len(g.piles))
	for key, p := range g.piles { // order: irrelevant because they are sorted
		if key.priority == priority {
			piles = append(piles, p)
		}
	}
	slices.SortFunc(piles, func(a, b *pile) int { return cmp.Compare(a.wishes[0].age, b.wishes[0].age) })
	for _, p := range piles {
		task := p.wishes[0].task
		if bin := q.chooseBin(g, bins, task); bin != nil {
			bin.Put(task)
			q.launchPlaced(bin, task)
			return true
		}
	}
	return false
}

// chooseBin returns the best bin for the task; nil: it fits into none.
func (q *waiting) chooseBin(g *group, bins []*pack.Bin, task api.Task) (best *pack.Bin) {
	least, rank := 0, 0.0
	for _, bin := range bins {
		if bin.Left.IsZero() || !q.mayPlace(bin, task) || !bin.Fits(task) {
			continue
		}
		if q.config.Spread == "" && q.config.Rank == nil {
			return bin
		}
		there, r := int(g.spread.Rank(bin, api.Task{})), 0.0
		if q.config.Rank != nil {
			r = q.config.Rank(bin, task)
		}
		if best == nil || cmp.Or(cmp.Compare(there, least), cmp.Compare(r, rank)) < 0 {
			best, least, rank = bin, there, r
		}
	}
	return best
}

// mayPlace reports whether the task may go into the bin at all, however much room the bin has.
func (q *waiting) mayPlace(bin *pack.Bin, task api.Task) bool {
	w := q.wishes[task.ID]
	switch {
	case w == nil || w.avoid != "" && w.avoid == bin.Offer.Agent || q.nameOf(w.item.group.role) != bin.Offer.Role:
		return false
	case w.isMove() && bin.Offer.Unavailable != nil:
		return false // from there, too, it would have to leave
	}
	return q.config.Apart == "" || w.item.group.apart.AtMost(q.config.Most)(bin, task)
}

// isMove reports whether the wish is for a copy of a service that was asked to leave its agent.
func (w *wish) isMove() bool { return w.copy && w.item.Service && w.avoid != "" }

// launchPlaced removes the wish and begins its attempt.
func (q *waiting) launchPlaced(bin *pack.Bin, task api.Task) {
	w := q.wishes[task.ID]
	q.removeWish(w)
	q.launch(w, bin, task)
}

// refuseMin keeps an offer that was on its way when the demand changed from being made again and again.
const refuseMin = 100 * time.Millisecond

// filterOf returns for how long what is left of the bin need not be offered again. What nobody wants is not offered
// anyway, because of the demand. If a wish refuses an offer that has room for it, because a task of its group runs on
// that agent, the masters end the filter when that task ends.
func (q *waiting) filterOf(bin *pack.Bin) api.Filter {
	var refuse time.Duration
	for _, r := range q.rolesNamed(bin.Offer.Role) {
		if wait := r.delay.Refuse(bin); wait > 0 && (refuse == 0 || wait < refuse) {
			refuse = wait
		}
	}
	if q.picky > 0 && (refuse == 0 || refuse > api.DefaultRefuse) {
		refuse = api.DefaultRefuse
	}
	return api.Filter{Refuse: max(refuse, refuseMin)}
}
