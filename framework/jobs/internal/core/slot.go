package core

import (
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/internal/verdict"
)

// slot is one index of a sub-job that has begun and not ended.
type slot struct {
	Index    int
	Failures int         // attempts that failed
	Streak   int         // that ended badly in a row
	Pause    time.Time   // it waits for this before it asks for an agent; zero: it does not pause
	Version  int         // of the job, that it runs or is to run next
	Queued   bool        // it waits for an agent
	Live     *attempt    // nil: none
	Trial    bool        // it was changed to the version and has not proven itself
	Agent    api.AgentID // whose it is, in a sub-job on each agent
	Slow     slowness    // of its task
	Copy     *attempt    // of a slow task; nil: none
	Lost     *attempt    // it was started elsewhere, for this one's agent is silent; should it be back, one of both ends
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

// slowness says whether a slot's task was found slow, and what came of it.
type slowness uint8

const (
	notSlow    slowness = iota
	wantsCopy           // an agent is looked for
	hadItsCopy          // it gets no other
)

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

// verdict is what a kill for this reason means for the judgement of the end.
func (k killReason) verdict() verdict.Kill {
	switch k {
	case notKilled:
		return verdict.NotKilled
	case overdue:
		return verdict.Overdue
	}
	return verdict.Unwanted
}
