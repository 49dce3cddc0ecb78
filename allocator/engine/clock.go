package engine

import "time"

// clock counts instants from the first time that is seen.
type clock struct {
	epoch time.Time // what instants are counted from; zero = no time seen yet
	now   instant
}

// instant is a time as nanoseconds since the epoch of the engine, compact in filters.
type instant int64

// before is how far the epoch lies before the first time seen, so that all instants
// are positive, whatever comes first.
const before = 10 * 365 * 24 * time.Hour

// instantOf converts a time. Differences of times keep their monotonic part (R23).
func (e *clock) instantOf(t time.Time) instant {
	if e.epoch.IsZero() {
		e.epoch = t.Add(-before)
	}
	return instant(t.Sub(e.epoch))
}

func (e *clock) timeOf(i instant) time.Time { return e.epoch.Add(time.Duration(i)) }
