// Package wallclock derives the wall clock's time from the time that has passed. So when somebody sets the clock,
// nothing planned begins too soon and nothing is forgotten too soon. (Protocol rule R23.)
package wallclock

import "time"

const (
	// setMin is the least difference between the two clocks that counts as setting the clock. A clock that is slewed
	// moves the monotonic time with it, so it shows no difference.
	setMin = time.Second
	// Doubt is for how long a clock that was set must have shown a time before anything begins because of it. The clock
	// may be set back meanwhile.
	Doubt = time.Minute
)

// Calendar converts times of the wall clock to times of the monotonic clock of one leadership, or of one job manager.
type Calendar struct {
	began time.Time     // when that began, with its monotonic part
	set   time.Duration // how far the wall clock was set since then, forward or back
	doubt time.Time     // nothing begins by the wall clock before this time
}

// Began returns the calendar of a leadership or a manager that begins now.
func Began(now time.Time) Calendar { return Calendar{began: now} }

// Look compares the wall clock with the monotonic time, and returns how far the clock was set since the last call.
func (c *Calendar) Look(now time.Time) time.Duration {
	set := now.Round(0).Sub(c.began.Round(0)) - now.Sub(c.began)
	by := set - c.set
	if by.Abs() < setMin {
		return 0
	}
	c.set, c.doubt = set, now.Add(Doubt)
	return by
}

// Moment returns when a time of the wall clock comes, but no sooner than a clock that was set is trusted.
func (c *Calendar) Moment(now, at time.Time) time.Time {
	return now.Add(max(Until(now, at), c.doubt.Sub(now)))
}

// Distrust makes nothing begin by the wall clock for a while, because it may have been set just before.
func (c *Calendar) Distrust(now time.Time) { c.doubt = now.Add(Doubt) }

// Trusted returns from when on the wall clock is trusted; zero: it always was.
func (c *Calendar) Trusted() time.Time { return c.doubt }

// Until returns how long it is until a time of the wall clock, by the wall clock.
func Until(now, at time.Time) time.Duration { return at.Sub(now.Round(0)) }
