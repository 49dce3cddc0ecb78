package sim

import (
	"time"

	"github.com/tenderhq/tender/internal/testing/clock"
)

// timepiece is the pair of clocks of one machine: a wall clock, which somebody may set, and a monotonic one, which may
// run a little too fast or too slow.
type timepiece struct {
	ahead time.Duration // how far the wall clock is ahead of the world's
	drift int64         // by how many millionths the monotonic clock is too fast
}

// driftMax is how many millionths a clock may be too fast or too slow: much more than those of real machines are, and
// less than what the margins of sessions allow for.
const driftMax = 20_000

// read returns what the clocks show. The monotonic one begins with the story.
func (c timepiece) read(w *World) time.Time {
	passed := c.own(w.now.Sub(epoch))
	return clock.At(epoch.Add(passed+c.ahead), passed)
}

// own returns how long this clock takes a time of the world for.
func (c timepiece) own(span time.Duration) time.Duration {
	return span + time.Duration(int64(span/1000)*c.drift/1000)
}

// until returns how long it takes in the world until this clock shows the time.
func (c timepiece) until(w *World, when time.Time) time.Duration {
	span := when.Sub(c.read(w))
	if span <= 0 {
		return 0
	}
	return span - time.Duration(int64(span/1000)*c.drift/(1_000_000+c.drift)*1000) + time.Microsecond*2
}

// waker wakes a core when it next has something to do by time alone.
type waker struct{ armed time.Time }

// wakeAt plans to ring at this time of a clock, unless that is planned. A time that was planned before counts no more.
func (k *waker) wakeAt(at time.Time, by *timepiece, w *World, plan func(pause time.Duration, do func()), ring func()) {
	if at.IsZero() || at.Equal(k.armed) {
		return
	}
	k.armed = at
	plan(by.until(w, at), func() {
		if k.armed.Equal(at) {
			k.armed = time.Time{}
			ring()
		}
	})
}

// setWallClock sets a wall clock, forward or back, by seconds, hours or weeks.
func (w *World) setWallClock(c *timepiece) {
	span := []time.Duration{5 * time.Second, 3 * time.Hour, 20 * 24 * time.Hour}[w.random.IntN(3)]
	c.ahead += w.drawBetween(-span, span)
	w.tellStory("world", "a clock is now %v ahead", c.ahead)
}

// jumpClock sets the machine's wall clock again and again, until the calm begins.
func (m *machine) jumpClock() {
	m.world.planIn(m.world.drawBetween(0, 10*time.Second), func() {
		if !m.world.kind {
			m.world.setWallClock(&m.clock)
			m.jumpClock()
		}
	})
}

// drawDrift draws how much too fast a clock is.
func (w *World) drawDrift() int64 {
	if w.random.IntN(2) == 0 {
		return 0
	}
	return w.random.Int64N(2*driftMax) - driftMax
}
