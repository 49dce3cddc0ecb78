// Package mesos holds what the gateway for old frameworks and the adapter for their executors both say of themselves.
// Masters and agents know nothing of it.
package mesos

import (
	"strconv"
	"time"
)

// Version is the version of Mesos whose API is spoken. Old clients want numbers and dots only.
const Version = "1.11.0"

// units are those in which Mesos writes durations, the smallest first.
var units = []struct {
	name string
	is   time.Duration
}{
	{"ns", time.Nanosecond}, {"us", time.Microsecond}, {"ms", time.Millisecond}, {"secs", time.Second},
	{"mins", time.Minute}, {"hrs", time.Hour}, {"days", 24 * time.Hour}, {"weeks", 7 * 24 * time.Hour},
}

// FormatDuration writes a duration as Mesos does: 5secs, 1.5mins.
func FormatDuration(d time.Duration) string {
	unit := units[0]
	for _, next := range units[1:] {
		if d.Abs() < next.is {
			break
		}
		unit = next
	}
	return strconv.FormatFloat(float64(d)/float64(unit.is), 'g', -1, 64) + unit.name
}
