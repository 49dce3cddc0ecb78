package jobs

import (
	"encoding/json"
	"time"

	"github.com/tenderhq/tender/api"
)

// Phase is how far a job is.
type Phase string

// The phases of a job. The last three are ends.
const (
	Running   Phase = "RUNNING"   // its tasks run, or wait for their turn
	Stopping  Phase = "STOPPING"  // somebody asked for its end; tasks of it still run
	Failing   Phase = "FAILING"   // it has failed; tasks of it still run
	Deleting  Phase = "DELETING"  // it is gone as soon as its tasks are
	Succeeded Phase = "SUCCEEDED" // all that was to end well has
	Failed    Phase = "FAILED"
	Stopped   Phase = "STOPPED"
)

// Ended says whether nothing more will happen.
func (p Phase) Ended() bool { return p == Succeeded || p == Failed || p == Stopped }

// Version is one state of a job as people wrote it.
type Version struct {
	Number int       `json:"number"`
	At     time.Time `json:"at"`
	// Why says where it came from: "submitted", "rolled back to version 2: ...".
	Why string `json:"why"`
	Job Job    `json:"job"`
}

// Note is one thing that happened to a job.
type Note struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// Status is a job as people see it.
type Status struct {
	Name      string         `json:"name"`
	Type      Type           `json:"type"`
	Phase     Phase          `json:"phase"`
	Why       string         `json:"why,omitempty"` // of its end, or of what it waits for
	Version   int            `json:"version"`
	Submitted time.Time      `json:"submitted"`
	Ended     time.Time      `json:"ended,omitzero"`
	SubJobs   []SubJobStatus `json:"sub_jobs"`
	Roll      *RollStatus    `json:"roll,omitempty"`
	Next      time.Time      `json:"next,omitzero"`  // of a cron job: when its next run is due
	Runs      []CronRun      `json:"runs,omitempty"` // of a cron job: those that have ended, the oldest first
	Notes     []Note         `json:"notes,omitempty"`
	Tasks     []Assignment   `json:"tasks,omitempty"`
}

// SubJobStatus counts the tasks of a sub-job.
type SubJobStatus struct {
	Name    string `json:"name"`
	Tasks   int    `json:"tasks"`
	Waiting int    `json:"waiting"` // for an offer
	Pausing int    `json:"pausing"` // before another attempt
	Running int    `json:"running"` // RUNNING on an agent
	Busy    int    `json:"busy"`    // assigned to an agent, running or on the way to it or to its end
	Done    int    `json:"done"`    // indexes that ended well
	Failed  int    `json:"failed"`  // indexes that were given up
	// State is running, success, failure, skipped, or blocked: what it comes after has not ended.
	State string `json:"state"`
}

// RollStatus is how far the change of a service is.
type RollStatus struct {
	To      int  `json:"to"`   // the version
	From    int  `json:"from"` // the one before, to which a bad change goes back
	Changed int  `json:"changed"`
	Trying  int  `json:"trying"`
	Of      int  `json:"of"`
	Stopped bool `json:"stopped,omitempty"` // a changed task was bad
	Back    bool `json:"back,omitempty"`    // it goes back to the version before
}

// Assignment is a task of a sub-job, and where it is.
type Assignment struct {
	SubJob   string            `json:"sub_job"`
	Index    int               `json:"index"`
	Attempt  int               `json:"attempt"`
	Version  int               `json:"version"`
	Task     api.TaskID        `json:"task"`
	Agent    api.AgentID       `json:"agent"`
	Hostname string            `json:"hostname,omitempty"`
	State    api.TaskState     `json:"-"`
	Since    time.Time         `json:"since"`
	Ports    map[string]uint16 `json:"ports,omitempty"`
	Failures int               `json:"failures,omitempty"`
	Copy     bool              `json:"copy,omitempty"` // of a task of the index that is slow
}

// text is the task as JSON, by which two are compared.
func (t Task) text() string {
	text, err := json.Marshal(t)
	if err != nil {
		return err.Error() // a NaN, which Check refuses
	}
	return string(text)
}
