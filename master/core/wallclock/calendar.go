// Package wallclock derives the wall clock's time from the time that has passed. So when somebody sets the clock,
// nothing planned begins too soon and nothing is forgotten too soon. (Protocol rule R23.)
package wallclock

import "time"

const (
	// setMin is the least difference that counts as a clock that was set. A clock that is moved little by little moves
	// the monotonic time with it.
	setMin = time.Second
	// Doubt is for how long a clock that was set must show a time before something begins for it: it may be set back.
	Doubt = time.Minute
)

// Calendar converts moments of the calendar to moments of the time that passes, for one leadership.
type Calendar struct {
	began time.Time     // the leadership, with its monotonic part
	set   time.Duration // how far the wall clock was set since then, forward or back
	doubt time.Time     // until then nothing begins by the clock
}

// Began is the calendar of a leadership that begins now.
func Began(now time.Time) Calendar { return Calendar{began: now} }

// Look compares the wall clock with the time that has passed, and returns how far it was set since the last look.
func (c *Calendar) Look(now time.Time) time.Duration {
	set := now.Round(0).Sub(c.began.Round(0)) - now.Sub(c.began)
	by := set - c.set
	if by.Abs() < setMin {
		return 0
	}
	c.set, c.doubt = set, now.Add(Doubt)
	return by
}

// Moment is when a moment of the calendar comes; no sooner than a clock that was set is believed.
func (c *Calendar) Moment(now, at time.Time) time.Time {
	return now.Add(max(Until(now, at), c.doubt.Sub(now)))
}

// Until is how long it is to a moment of the calendar, by the wall clock.
func Until(now, at time.Time) time.Duration { return at.Sub(now.Round(0)) }
