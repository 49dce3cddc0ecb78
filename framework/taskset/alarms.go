package taskset

import (
	"time"

	"github.com/tenderhq/tender/internal/alarms"
)

// alarm calls a function at a given time.
type alarm = alarms.Alarm[func(now time.Time)]

// alarmClock holds the alarms that are set.
type alarmClock struct {
	alarms.Alarms[func(now time.Time)]
}

// ringDue calls the functions of all alarms that are due.
func (a *alarmClock) ringDue(now time.Time) {
	for ring, is := a.Due(now); is; ring, is = a.Due(now) {
		ring(now)
	}
}
