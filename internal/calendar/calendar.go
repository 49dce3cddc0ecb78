// Package calendar reads the schedules of cron jobs and knows the time zones: it says when a schedule is due next. It
// has no clock and never begins a run; the job manager does.
package calendar

import (
	"fmt"
	"sync"
	"time"
	_ "time/tzdata" // so that time zones are known also on machines where none are installed
)

// yearsMax is how far ahead a schedule is searched: all pairs of a date and a weekday come again within 40 years, also
// when 2100, which is no leap year, is among them.
const yearsMax = 40

// Next is when the schedule is due next after a time; the zero time: never. Schedules have five fields, as a crontab
// has them, or are one of @hourly, @daily, @weekly, @monthly and @yearly.
//
// Where a clock is put forward, what is due in the time that is left out is due later by as much. Where it is put back,
// what is due in the time that comes twice is due the first time alone. A schedule of every hour simply follows the
// clock in both cases.
func Next(schedule, zone string, after time.Time) (time.Time, error) {
	place, err := location(zone)
	if err != nil {
		return time.Time{}, err
	}
	s, err := parse(schedule)
	if err != nil {
		return time.Time{}, err
	}
	at := after.In(place).Add(1)
	limit := at.AddDate(yearsMax, 0, 0)
	for at.Before(limit) {
		found, end := s.nextInPeriod(at, limit)
		if !found.IsZero() {
			return found.In(place), nil
		}
		at = end.In(place)
	}
	return time.Time{}, nil
}

// nextInPeriod returns when the schedule is first due from a time on, while the zone's offset stays what it is then;
// the zero time: not at all. It also returns when that period ends, at most the limit.
func (s schedule) nextInPeriod(at, limit time.Time) (due, end time.Time) {
	start, end := at.ZoneBounds()
	if end.IsZero() || end.After(limit) {
		end = limit
	}
	now := offset(at)
	before := now
	if !start.IsZero() {
		before = offset(start.Add(-1))
	}
	from := at
	if !s.everyHour {
		// The clock was put back: until this moment it shows again what it has shown already.
		if again := start.Add(before - now); from.Before(again) {
			from = again
		}
		// It was put forward: what the old clock would have shown until this moment is due now.
		if late := start.Add(now - before); at.Before(late) {
			due = s.nextShown(at, late, before)
		}
	}
	shown := s.nextShown(from, end, now)
	if due.IsZero() || !shown.IsZero() && shown.Before(due) {
		due = shown
	}
	return due, end
}

// offset is how far the clock of the time's zone is ahead of UTC.
func offset(at time.Time) time.Duration {
	_, seconds := at.Zone()
	return time.Duration(seconds) * time.Second
}

// nextShown returns the first moment, from one time on and before the other, at which a clock that is ahead of UTC by
// so much shows a minute of the schedule; the zero time: there is none.
func (s schedule) nextShown(from, end time.Time, ahead time.Duration) time.Time {
	wall := s.nextWall(from.UTC().Add(ahead), end.UTC().Add(ahead))
	if wall.IsZero() {
		return wall
	}
	return wall.Add(-ahead)
}

// places are the time zones that were read, by their names.
var places sync.Map

func location(zone string) (*time.Location, error) {
	if known, is := places.Load(zone); is {
		return known.(*time.Location), nil
	}
	if zone == "Local" {
		return nil, fmt.Errorf("%q differs from machine to machine; name a time zone such as \"Europe/Berlin\"", zone)
	}
	place, err := time.LoadLocation(zone)
	if err != nil {
		return nil, fmt.Errorf("%q is no time zone; write one such as \"UTC\" or \"Europe/Berlin\"", zone)
	}
	places.Store(zone, place)
	return place, nil
}
