package books

import (
	"time"
)

// clock converts times to instants, counted from the first time that is seen.
type clock struct {
	Epoch time.Time // what instants are counted from; zero = no time seen yet
	Now   Instant
}

// Instant is a time in nanoseconds since the epoch of the engine; it is compact enough for filters.
type Instant int64

// before is how long the epoch lies before the first time that is seen, so that all instants are positive, whichever
// time comes first.
const before = 10 * 365 * 24 * time.Hour

// InstantOf converts a time. Differences of times keep their monotonic part (R23).
func (c *clock) InstantOf(t time.Time) Instant {
	if c.Epoch.IsZero() {
		c.Epoch = t.Add(-before)
	}
	return Instant(t.Sub(c.Epoch))
}

func (c *clock) TimeOf(i Instant) time.Time { return c.Epoch.Add(time.Duration(i)) }
