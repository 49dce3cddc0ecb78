package work

import (
	"slices"
	"strings"

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
	Ignored                // nobody is interested in how it has ended
)

// Kill says why the framework itself has killed the task, if it has.
type Kill uint8

// The kinds of kills. A later one overrules an earlier one.
const (
	NotKilled Kill = iota
	Overdue        // the task took too long
	Unwanted       // nobody is interested in how the task ends
)

// Judge judges the last status of a task.
func Judge(kill Kill, status api.Status) Verdict {
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

// Words tells people how a task ended: its state, the reason and the message.
func Words(status api.Status) string {
	parts := []string{status.State.String(), status.Reason.String(), status.Message}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), " ")
}
