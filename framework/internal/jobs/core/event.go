package core

import (
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/jobs"
)

// Event is something that a JobMaster is told.
type Event interface{ event() }

type (
	// Begun says that the job is new. Its header is in the store.
	Begun struct{}
	// Updated gives the job another version. The version is in the store.
	Updated struct{ Version jobs.Version }
	// Assigned says that there is room on this agent for the next waiting task of the sub-job.
	Assigned struct {
		SubJob   string
		Version  int
		Agent    api.AgentID
		Hostname string
		Place    string // the place as the task's Spread counts it
		Ports    map[string]uint16
		Copy     bool // for a copy of a slow task
	}
	// AssignedGang says that there is room for all members of the gang at the same time. The members are listed by
	// index.
	AssignedGang struct {
		SubJob  string
		Version int
		Members []Assigned
	}
	// Undispatched says that an assigned task was never launched, for example because its offer was gone.
	Undispatched struct {
		Task api.TaskID
		Why  string
	}
	// Heard is a status of a task.
	Heard struct{ Status api.Status }
	// Asked says that the job has to end. With Delete it is forgotten after that.
	Asked struct {
		Delete bool
		Why    string
	}
	// RunAsked says that somebody wants the run of this number of a cron job to begin now. Nothing happens if it has
	// begun, or if [JobMaster.MayRun] says why it can't.
	RunAsked struct {
		Number int
		Why    string
	}
	// Planned says when the next run of a cron job is due after the time that Unplanned has returned. Latest is the
	// last time up to now at which a run was due; zero: there was none. Doubted is for how long the job was not told
	// because the wall clock was not trusted.
	Planned struct {
		Next, Latest time.Time
		Doubted      time.Duration
	}
	// ClockSet says by how much somebody has set the wall clock, and until when it is not trusted. The job is not told
	// Planned before that. Believed says that the clock was trusted before.
	ClockSet struct {
		By       time.Duration
		Doubt    time.Time
		Believed bool
	}
	// Woken says that the time has come that Wake has returned.
	Woken struct{}
)

func (Begun) event()        {}
func (Updated) event()      {}
func (Assigned) event()     {}
func (AssignedGang) event() {}
func (Undispatched) event() {}
func (Heard) event()        {}
func (Asked) event()        {}
func (RunAsked) event()     {}
func (Planned) event()      {}
func (ClockSet) event()     {}
func (Woken) event()        {}

// Effect is something that a JobMaster wants done, once all Save effects before it are in the store.
type Effect interface{ effect() }

type (
	// Save writes what Record returns for the key; if that is nil, it deletes the key.
	Save struct{ Key string }
	// Dispatch launches a task on the agent to which it was assigned.
	Dispatch struct {
		Task  api.TaskID
		Agent api.AgentID
	}
	// Kill ends a task.
	Kill struct{ Task api.TaskID }
	// Acknowledge says that a status has been handled.
	Acknowledge struct{ Status api.Status }
	// Tell tells the masters' history what has happened to the job.
	Tell struct{ Event api.JobEvent }
	// Ended says that the job has ended for good; the records of its parts are deleted.
	Ended struct{ Phase jobs.Phase }
	// Forgotten says that the job is gone.
	Forgotten struct{}
)

func (Save) effect()        {}
func (Dispatch) effect()    {}
func (Kill) effect()        {}
func (Acknowledge) effect() {}
func (Tell) effect()        {}
func (Ended) effect()       {}
func (Forgotten) effect()   {}
