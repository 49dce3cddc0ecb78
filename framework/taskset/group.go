package taskset

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/pack"
	"github.com/tenderhq/tender/internal/verdict"
)

// group is the items that belong together, and their attempts.
type group struct {
	name          string
	role          *role
	items         int // items that have not ended
	total, done   int // items so far, and those of them that ended well
	live          map[api.TaskID]*attempt
	piles         map[pileKey]*pile
	near          int // wishes that queue for locality
	spread, apart *pack.Spread
	times         []time.Duration // how long the latest attempts ran that ended well, as a ring
	next          int             // next position in times
	check         *alarm          // when the next straggler has to be looked for
}

// jobOf returns the name that the group has as a job of package locality.
func jobOf(group string) string { return "group " + group }

func (q *waiting) groupOf(name string, in *role) *group {
	g := q.groups[name]
	if g == nil {
		g = &group{name: name, role: in, live: make(map[api.TaskID]*attempt), piles: make(map[pileKey]*pile),
			spread: pack.NewSpread(q.config.Spread), apart: pack.NewSpread(q.config.Apart)}
		q.groups[name] = g
	}
	return g
}

// tidy forgets a group of which nothing is left.
func (q *waiting) tidy(g *group) {
	if g.items > 0 || len(g.live) > 0 || q.groups[g.name] != g {
		return
	}
	delete(q.groups, g.name)
	q.alarms.Clear(g.check)
	if job, delay := jobOf(g.name), g.role.delay; delay.Queued(job) == 0 {
		q.past = q.past.Plus(delay.Numbers(job))
		delay.Forget(job)
	}
}

// The rule for stragglers; the package comment explains it.
const (
	timesKept       = 256  // of how many attempts the median is taken
	doneBeforeCopy  = 0.75 // of the group's items (Spark: spark.speculation.quantile)
	timesBeforeCopy = 3    // a median of fewer attempts says too little
	copiesMost      = 0.1  // part of the running tasks that may be copies (LATE: SpeculativeCap); at least one task
)

// took notes how long an attempt ran that ended well.
func (g *group) took(d time.Duration) {
	if len(g.times) < timesKept {
		g.times = append(g.times, d)
		return
	}
	g.times[g.next] = d
	g.next = (g.next + 1) % timesKept
}

func (g *group) median() time.Duration {
	return slices.Sorted(slices.Values(g.times))[len(g.times)/2]
}

// watch makes copies of stragglers, and sets an alarm for the time when the next attempt becomes one.
func (s *state) watch(g *group, now time.Time) {
	s.alarms.Clear(g.check)
	g.check = nil
	if s.config.Speculate <= 0 || len(g.times) < timesBeforeCopy || g.waiting() > 0 || float64(g.done) < doneBeforeCopy*float64(g.total) {
		return
	}
	limit := time.Duration(s.config.Speculate * float64(g.median()))
	copies, slow := g.straggling()
	most := max(1, int(math.Ceil(copiesMost*float64(len(g.live)-copies))))
	for _, a := range slow {
		if at := a.running.Add(limit); at.After(now) {
			g.check = s.alarms.Add(at, func(now time.Time) { s.watch(g, now) })
			return
		}
		if copies >= most {
			return // the next end of an attempt calls watch again
		}
		copies++
		s.want(a.item, true, a.agent)
	}
}

// waiting returns how many wishes of the group wait, without copies.
func (g *group) waiting() (n int) {
	for _, p := range g.piles { // order: irrelevant because it counts
		if !p.copies {
			n += p.count
		}
	}
	return n + g.near
}

// straggling counts the copies that run or wait. It also lists the attempts that may be copied, the longest running
// first.
func (g *group) straggling() (copies int, slow []*attempt) {
	for _, a := range slices.SortedFunc(maps.Values(g.live), func(a, b *attempt) int {
		return cmp.Or(a.running.Compare(b.running), cmp.Compare(a.id, b.id))
	}) {
		switch {
		case a.copy:
			copies++
		case len(a.item.wishes) > 0:
			copies++
		case a.holds() && a.kill == verdict.NotKilled && !a.running.IsZero() && !a.item.Service && len(a.item.live) == 1:
			slow = append(slow, a)
		}
	}
	return copies, slow
}
