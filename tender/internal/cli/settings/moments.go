package settings

import (
	"fmt"
	"time"
)

// clockTime is a time of a day, as people write it.
const clockTime = "15:04"

// Before reads a moment of the past: how long ago it was (1h30m), a date with a time (2026-01-02T14:00, in the zone of
// now unless it names one), or a time of a clock (14:00), which is the last one that was.
func Before(text string, now time.Time) (time.Time, error) { return moment(text, now, -1) }

// After reads a moment to come: now, how long from now it is, a date with a time, or the next such time of a clock.
func After(text string, now time.Time) (time.Time, error) { return moment(text, now, 1) }

// moment reads a moment that lies before now, or after it for a positive direction.
func moment(text string, now time.Time, direction int) (time.Time, error) {
	if text == "now" {
		return now, nil
	}
	if span, err := time.ParseDuration(text); err == nil && span >= 0 {
		return now.Add(time.Duration(direction) * span), nil
	}
	if clock, err := time.Parse(clockTime, text); err == nil {
		at := time.Date(now.Year(), now.Month(), now.Day(), clock.Hour(), clock.Minute(), 0, 0, now.Location())
		if direction < 0 && at.After(now) || direction > 0 && at.Before(now) {
			at = time.Date(now.Year(), now.Month(), now.Day()+direction, clock.Hour(), clock.Minute(), 0, 0, now.Location())
		}
		return at, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, nil
		}
	}
	way := "how long ago, such as 30m"
	if direction > 0 {
		way = "now, a time from now such as 30m"
	}
	return time.Time{}, fmt.Errorf("%q is no moment; write %s, a time of a clock (14:00, 22:00), or a date such as 2026-12-01T22:00", text, way)
}
