package core

import (
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/work"
)

// slot is an index of a sub-job that has begun and has not ended.
type slot struct {
	Index      int
	Tries      int         // tasks that it has had so far, without those that never began
	work.Tally             // how they ended
	Last       string      // how the latest ended, for people; not stored
	Pause      time.Time   // when it may ask for an agent again; zero: it does not pause
	Version    int         // the version of the job that it runs, or will run next
	Queued     bool        // it waits for an agent
	Live       *attempt    // its task; nil: none
	Trial      bool        // it was changed to the version, and has not proven itself
	Agent      api.AgentID // the agent to which it belongs, in a sub-job on each agent
	Slow       slowness    // whether its task was found slow
	Copy       *attempt    // a copy of its slow task; nil: none
	Lost       *attempt    // a task on a silent agent that was started elsewhere; if it comes back, one of the two is ended
	Avoids     api.AgentID // where its tasks have ended badly several times in a row; another agent is tried first; not stored
}

// attempt is one task of a slot.
type attempt struct {
	Number   int // in the part; a part of the task's ID
	Try      int // of the slot, from 1
	Task     api.TaskID
	Agent    api.AgentID
	Hostname string
	Place    string
	Ports    map[string]uint16
	Version  int
	State    api.TaskState // as it was told last; unspecified: nothing was told
	Since    time.Time     // when it was launched
	Running  time.Time     // since when it runs and is healthy; zero: it does not
	Silent   time.Time     // since when its agent is taken for dead
	Said     string        // what its status says while it does not run well: which check fails
	Killed   killReason
}

// slowness says whether a slot's task was found slow, and what was done about it.
type slowness uint8

const (
	notSlow    slowness = iota
	wantsCopy           // it waits for an agent for the copy
	hadItsCopy          // it gets no second copy
)

// killReason says why the JobMaster kills a task.
type killReason uint8

const (
	notKilled killReason = iota
	overdue              // it took longer than Timeout: it counts as failed
	unwanted             // the job ends, or gets fewer tasks
	replaced             // another version takes its place
)

// busy reports whether the slot has a task, or one that is being assigned.
func (s *slot) busy() bool { return s.Live != nil }

// up reports whether the slot's task runs and is healthy.
func (s *slot) up() bool {
	return s.Live != nil && !s.Live.Running.IsZero() && s.Live.Killed == notKilled
}

// verdict returns what a kill for this reason means when the task's end is judged.
func (k killReason) verdict() work.Kill {
	switch k {
	case notKilled:
		return work.NotKilled
	case overdue:
		return work.Overdue
	}
	return work.Unwanted
}
