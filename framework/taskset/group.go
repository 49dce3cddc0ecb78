package taskset

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/pack"
	"github.com/tenderhq/tender/internal/work"
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
	pace          work.Pace
	check         *alarm // when the next straggler has to be looked for
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

// forgetIfEmpty forgets a group of which nothing is left.
func (q *waiting) forgetIfEmpty(g *group) {
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

// watchStragglers makes copies of stragglers, and sets an alarm for the time when the next attempt becomes one.
func (s *state) watchStragglers(g *group, now time.Time) {
	if s.config.Speculate <= 0 || !g.pace.Asks(now, g.done, g.total, g.countWaiting() > 0) {
		return
	}
	for _, a := range work.FindStragglers(&g.pace, now, s.config.Speculate, g.endingAttempts()) {
		s.wantAttempt(a.item, true, a.Agent)
	}
	s.alarms.Clear(g.check)
	if g.check = nil; !g.pace.Check.IsZero() {
		g.check = s.alarms.Add(g.pace.Check, func(now time.Time) { s.watchStragglers(g, now) })
	}
}

// countWaiting returns how many wishes of the group wait, without copies.
func (g *group) countWaiting() (n int) {
	for _, p := range g.piles { // order: irrelevant because it counts
		if !p.key.copies {
			n += p.count
		}
	}
	return n + g.near
}

// endingAttempts yields the attempts of work to be done once, by their tasks.
func (g *group) endingAttempts() iter.Seq[*attempt] {
	return func(yield func(*attempt) bool) {
		for _, id := range slices.Sorted(maps.Keys(g.live)) {
			if a := g.live[id]; !a.item.Service && !yield(a) {
				return
			}
		}
	}
}
