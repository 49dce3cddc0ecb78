// Package calendar reads the schedules of cron jobs and knows the time zones: it says when a schedule is due next. It
// has no clock and never begins a run; the job manager does.
package calendar

import (
	"fmt"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // so that time zones are the same on all machines, also where none are installed

	"github.com/netresearch/go-cron"
)

// Next is when the schedule is due next after a time; the zero time: never. Schedules have five fields, or are one of
// @hourly, @daily, @weekly, @monthly and @yearly.
//
// Where a clock is put forward, what is due in the hour that is left out is due an hour later. Where it is put back,
// what is due in the hour that comes twice is due the first time alone, unless the schedule names every hour.
func Next(schedule, zone string, after time.Time) (time.Time, error) {
	place, err := location(zone)
	if err != nil {
		return time.Time{}, err
	}
	hours, err := hoursOf(schedule)
	if err != nil {
		return time.Time{}, err
	}
	times, err := cron.ParseStandard(schedule)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is no schedule: %w; write minute, hour, day of the month, month and day of the week, "+
			"such as \"30 2 * * mon-fri\"", schedule, err)
	}
	next := times.Next(after.In(place))
	for !next.IsZero() && !strings.HasPrefix(hours, "*") && comesAgain(next) {
		next = times.Next(next)
	}
	return next, nil
}

// hoursOf is the field of a schedule that names hours. Schedules by words name all hours or one.
func hoursOf(schedule string) (string, error) {
	fields := strings.Fields(schedule)
	switch {
	case schedule == "@hourly":
		return "*", nil
	case strings.HasPrefix(schedule, "@every"):
		return "", fmt.Errorf("%q has no fixed times; write minute, hour, day of the month, month and day of the week, such as \"*/15 * * * *\"", schedule)
	case strings.Contains(schedule, "TZ="):
		return "", fmt.Errorf("%q names a time zone; write that as cron.zone", schedule)
	case len(fields) > 1:
		return fields[1], nil
	}
	return "", nil
}

// comesAgain says whether the clock on the wall has shown this time already, before it was put back.
func comesAgain(at time.Time) bool {
	_, offset := at.Zone()
	_, before := at.Add(-3 * time.Hour).Zone() // no clock is put back by more
	if before <= offset {
		return false
	}
	first := at.Add(-time.Duration(before-offset) * time.Second)
	const wall = "2006-01-02 15:04:05"
	return first.Format(wall) == at.Format(wall)
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
