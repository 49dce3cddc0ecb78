package core

import (
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/jobs"
)

// Event is what a JobMaster is told.
type Event interface{ event() }

type (
	// Begun says that the job is new; its header is in the store.
	Begun struct{}
	// Updated says that the job is to be this from now on. The version is in the store.
	Updated struct{ Version jobs.Version }
	// Assigned says that the scheduler has room for the next task that waits in the sub-job, on this agent.
	Assigned struct {
		SubJob   string
		Version  int
		Agent    api.AgentID
		Hostname string
		Place    string // by the task's Spread
		Ports    map[string]uint16
		Copy     bool // of a slow task
	}
	// AssignedGang says that the scheduler has room for all members of the gang at one time, by their index.
	AssignedGang struct {
		SubJob  string
		Version int
		Members []Assigned
	}
	// Undispatched says that an assigned task never left, say for its offer is gone.
	Undispatched struct {
		Task api.TaskID
		Why  string
	}
	// Heard says that a status has come.
	Heard struct{ Status api.Status }
	// Asked says that the job is to end. With Delete it is then forgotten.
	Asked struct {
		Delete bool
		Why    string
	}
	// Planned says when the next run of a cron job is due after what Unplanned has named. Latest is the last that was
	// due by now; zero: none was.
	Planned struct{ Next, Latest time.Time }
	// Woken says that it is the time that Wake has named, or later.
	Woken struct{}
)

func (Begun) event()        {}
func (Updated) event()      {}
func (Assigned) event()     {}
func (AssignedGang) event() {}
func (Undispatched) event() {}
func (Heard) event()        {}
func (Asked) event()        {}
func (Planned) event()      {}
func (Woken) event()        {}

// Effect is what a JobMaster wants done, once all Save effects before it are in the store.
type Effect interface{ effect() }

type (
	// Save writes what Record gives for the key; where that is nothing, the key is deleted.
	Save struct{ Key string }
	// Dispatch launches a task on the agent that it was assigned to.
	Dispatch struct {
		Task  api.TaskID
		Agent api.AgentID
	}
	// Kill ends a task.
	Kill struct{ Task api.TaskID }
	// Acknowledge says that a status is handled.
	Acknowledge struct{ Status api.Status }
	// Ended says that nothing more will happen; its parts are deleted.
	Ended struct{ Phase jobs.Phase }
	// Forgotten says that the job is gone.
	Forgotten struct{}
)

func (Save) effect()        {}
func (Dispatch) effect()    {}
func (Kill) effect()        {}
func (Acknowledge) effect() {}
func (Ended) effect()       {}
func (Forgotten) effect()   {}
