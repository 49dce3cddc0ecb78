package taskset

import (
	"time"

	"github.com/tenderhq/tender/internal/alarms"
)

// alarm is something that is due at a time: what it does then.
type alarm = alarms.Alarm[func(now time.Time)]

// alarmClock holds the alarms that are set.
type alarmClock struct {
	alarms.Alarms[func(now time.Time)]
}

// ring rings what is due.
func (a *alarmClock) ring(now time.Time) {
	for ring, is := a.Due(now); is; ring, is = a.Due(now) {
		ring(now)
	}
}
