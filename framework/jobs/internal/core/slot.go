package core

import (
	"time"

	"github.com/tenderhq/tender/api"
)

// slot is one index of a sub-job that has begun and not ended.
type slot struct {
	Index    int
	Failures int       // attempts that failed
	Streak   int       // that ended badly in a row
	Pause    time.Time // it waits for this before it asks for an agent; zero: it does not pause
	Version  int       // of the job, that it runs or is to run next
	Queued   bool      // it waits for an agent
	Live     *attempt  // nil: none
	Trial    bool      // it was changed to the version and has not proven itself
	Lost     *attempt  // it was started elsewhere, for this one's agent is silent; should it be back, one of both ends
}

// attempt is a task of a slot.
type attempt struct {
	Number   int
	Task     api.TaskID
	Agent    api.AgentID
	Hostname string
	Place    string
	Ports    map[string]uint16
	Version  int
	State    api.TaskState // as it was told last; unspecified: nothing was told
	Since    time.Time     // of its launch
	Running  time.Time     // since when it runs and is healthy; zero: it does not
	Silent   time.Time     // since when its agent is taken for dead
	Killed   killReason
}

// killReason says why the JobMaster ends a task.
type killReason uint8

const (
	notKilled killReason = iota
	overdue              // it took longer than Timeout: counts as failed
	unwanted             // the job ends, or is to have fewer tasks
	replaced             // by another version
)

// busy says whether an agent has a task of it, or is to have.
func (s *slot) busy() bool { return s.Live != nil }

// up says whether its task runs and is healthy.
func (s *slot) up() bool {
	return s.Live != nil && !s.Live.Running.IsZero() && s.Live.Killed == notKilled
}

// verdict is what the end of a task says about its index.
type verdict uint8

const (
	well    verdict = iota
	badly           // by its own fault
	lost            // not by its own fault
	refused         // and would be again
)

func judge(killed killReason, status api.Status) verdict {
	switch status.State {
	case api.TaskFinished:
		return well
	case api.TaskDropped, api.TaskGone, api.TaskGoneByOperator, api.TaskUnknown:
		return lost
	case api.TaskError:
		if status.Reason == api.ReasonTaskDuplicate {
			return lost // the next attempt has another ID
		}
		return refused
	}
	switch {
	case killed == overdue:
		return badly
	case killed != notKilled, status.Reason.Blameless():
		return lost
	}
	return badly
}
