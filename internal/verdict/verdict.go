// Package verdict says what the end of a task means for the work that the task ran for. Everything here that retries
// uses it: task sets and jobs.
package verdict

import (
	"cmp"
	"time"

	"github.com/tenderhq/tender/api"
)

// Verdict says what a task's end means for the work.
type Verdict uint8

// The verdicts.
const (
	Well    Verdict = iota // the work is done
	Badly                  // the task has ended badly, by its own fault
	Lost                   // the task has ended, not by its own fault
	Refused                // the task can't run, and could not at another try
)

// Kill says why the framework itself has killed the task, if it has.
type Kill uint8

// The kinds of kills. A later one overrules an earlier one.
const (
	NotKilled Kill = iota
	Overdue        // the task took too long
	Unwanted       // nobody is interested in how the task ends
)

// Of judges the last status of a task.
func Of(kill Kill, status api.Status) Verdict {
	switch status.State {
	case api.TaskFinished:
		return Well
	case api.TaskDropped, api.TaskGone, api.TaskGoneByOperator, api.TaskUnknown:
		return Lost
	case api.TaskError:
		if status.Reason == api.ReasonTaskDuplicate {
			return Lost // the next attempt has another ID
		}
		return Refused
	}
	switch {
	case kill == Overdue:
		return Badly
	case kill == Unwanted, status.Reason.Blameless():
		return Lost
	}
	return Badly
}

// TimeToFail returns for how long a task that has passed its checks may go on before they have found that it no longer
// does; 0: it has none. A task that has run well for less has proven nothing. Checks are made one after the other, so
// each may have to wait for all others.
func TimeToFail(checks []api.Check) (longest time.Duration) {
	var timeouts time.Duration
	for _, check := range checks {
		timeouts += cmp.Or(check.Timeout, api.DefaultCheckTimeout)
	}
	for _, check := range checks {
		failures := cmp.Or(check.Failures, api.DefaultCheckFailures)
		longest = max(longest, time.Duration(failures)*(cmp.Or(check.Interval, api.DefaultCheckInterval)+timeouts))
	}
	return longest
}
