// Package words writes values as text for people. It is a leaf: it imports no other package of Tender, and decides
// nothing.
package words

import (
	"fmt"
	"time"
)

// Span writes a length of time in its two largest units: "0.4 s", "12 s", "2 min 30 s", "1 h", "9 days 3 h". A part of
// the smallest unit that is written counts as a whole one, so that nobody comes back too soon. Zero or less is "0 s".
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d <= 0:
		return "0 s"
	case d <= 10*time.Second:
		d = roundUp(d, 100*time.Millisecond)
		return fmt.Sprintf("%g s", float64(d.Milliseconds())/1000)
	case d <= time.Hour:
		return units(roundUp(d, time.Second), time.Minute, "min", time.Second, "s")
	case d <= day:
		return units(roundUp(d, time.Minute), time.Hour, "h", time.Minute, "min")
	}
	d = roundUp(d, time.Hour)
	if d/day == 1 {
		return units(d, day, "day", time.Hour, "h")
	}
	return units(d, day, "days", time.Hour, "h")
}

func roundUp(d, unit time.Duration) time.Duration {
	if rest := d % unit; rest > 0 {
		d += unit - rest
	}
	return d
}

// units writes whole numbers of both units, and leaves out a unit whose number is zero.
func units(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	if d == time.Hour && large == time.Minute {
		return "1 h"
	}
	n, rest := d/large, d%large/small
	switch {
	case n == 0:
		return fmt.Sprintf("%d %s", rest, smallName)
	case rest == 0:
		return fmt.Sprintf("%d %s", n, largeName)
	}
	return fmt.Sprintf("%d %s %d %s", n, largeName, rest, smallName)
}
