package core

import (
	"time"

	"github.com/tenderhq/tender/internal/alarms"
)

// alarm is something that has to happen at a given time. An alarm that is out of date does nothing.
type alarm struct {
	At      time.Time
	Kind    alarmKind
	SubJob  string
	Index   int
	Attempt int
}

type alarmKind uint8

const (
	pauseOver   alarmKind = iota // the pause of a slot is over
	timeOver                     // an attempt has taken too long
	lostLong                     // an attempt's agent has been silent for long enough
	proofOver                    // an attempt may have proven itself
	deadlineAt                   // deadline of the job, or of a run (its sub-job)
	runDue                       // a run of a cron job is due
	gangPause                    // a gang may begin anew
	unclaimed                    // a slot's agent was not offered for too long
	straggles                    // a task of the sub-job may be slow by now
	avoidOver                    // a slot may go again to the agent that it avoids
	progressDue                  // a change may have made no progress for too long
)

// alarmClock holds the alarms that are set.
type alarmClock struct{ alarms.Alarms[alarm] }

// set sets an alarm.
func (a *alarmClock) set(due alarm) { a.Add(due.At, due) }
