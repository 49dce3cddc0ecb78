package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tenderhq/tender/internal/alarms"
)

// World is one cluster with everything around it. Make it with newWorld.
type World struct {
	random *rand.Rand
	now    time.Time
	queue  alarms.Alarms[func()] // calls that are planned
	still  int                   // number of calls at one moment

	quorum     *quorum
	machines   []*machine
	schedulers []*scheduler
	truth      *truth

	// kind says that nothing goes wrong by chance any more: executors, disks and streams work.
	kind     bool
	steps    int
	coverage Coverage
	broken   error            // the first promise that was broken
	story    *strings.Builder // what happened, line by line; nil: nobody reads it
}

// epoch is when every story begins.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// stillMax is how many calls one moment may have before the cores are taken to run in circles.
const stillMax = 200_000

func newWorld(seed uint64) *World {
	w := &World{random: rand.New(rand.NewPCG(seed, 1)), now: epoch, coverage: Coverage{}}
	w.truth = newTruth(w)
	w.quorum = newQuorum(w)
	return w
}

// planAt plans a call; a time in the past means now.
func (w *World) planAt(when time.Time, do func()) {
	if when.Before(w.now) {
		when = w.now
	}
	w.queue.Add(when, do)
}

func (w *World) planIn(pause time.Duration, do func()) { w.planAt(w.now.Add(pause), do) }

// passTime lets time go by.
func (w *World) passTime(span time.Duration) {
	w.passUntil(w.now.Add(span), func() bool { return false })
}

// passUntil lets time pass until `when`, or until the condition holds or a promise is broken.
func (w *World) passUntil(when time.Time, done func() bool) bool {
	for w.broken == nil {
		if done() {
			return true
		}
		at := w.queue.Next()
		do, is := w.queue.Due(when)
		if !is {
			w.now = when
			return done()
		}
		if at.After(w.now) {
			w.now, w.still = at, 0
		}
		w.steps++
		if w.still++; w.still > stillMax {
			w.breakStory("the cores run in circles: %d calls at one moment", stillMax)
			return false
		}
		do()
	}
	return false
}

// breakStory notes a broken promise; the story ends here.
func (w *World) breakStory(format string, args ...any) {
	if w.broken == nil {
		w.broken = fmt.Errorf("at %v: %s", w.now.Sub(epoch), fmt.Sprintf(format, args...))
		w.tellStory("world", "BROKEN: %v", w.broken)
	}
}

// tellStory writes a line of the story.
func (w *World) tellStory(who, format string, args ...any) {
	if w.story != nil {
		fmt.Fprintf(w.story, "%12.6f %-12s %s\n", w.now.Sub(epoch).Seconds(), who, fmt.Sprintf(format, args...))
	}
}

// drawBetween draws a duration between the two.
func (w *World) drawBetween(least, most time.Duration) time.Duration {
	return least + time.Duration(w.random.Int64N(int64(most-least)+1))
}

// drawChance is true once in this many times on average, and never when the world is kind.
func (w *World) drawChance(times int) bool { return w.random.IntN(times) == 0 && !w.kind }

// drawPause draws a pause, which is mostly short.
func (w *World) drawPause() time.Duration {
	if w.drawChance(40) {
		return w.drawBetween(0, 3*time.Second)
	}
	return w.drawBetween(0, 5*time.Millisecond)
}

// findLeader returns the present leader; nil: nobody leads.
func (w *World) findLeader() *leader { return w.quorum.leader }
