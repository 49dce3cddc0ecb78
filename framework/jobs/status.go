package jobs

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
)

// Phase says how far a job has come.
type Phase string

// The phases of a job. The last three are final.
const (
	Running   Phase = "RUNNING"   // its tasks run, or wait for their turn
	Stopping  Phase = "STOPPING"  // somebody asked for its end; some of its tasks still run
	Failing   Phase = "FAILING"   // it has failed; some of its tasks still run
	Deleting  Phase = "DELETING"  // it is forgotten as soon as its tasks have ended
	Succeeded Phase = "SUCCEEDED" // everything that had to end well has
	Failed    Phase = "FAILED"
	Stopped   Phase = "STOPPED"
)

// Ended reports whether the job has ended for good.
func (p Phase) Ended() bool { return p == Succeeded || p == Failed || p == Stopped }

// Version is one version of a job, as people wrote it.
type Version struct {
	Number int       `json:"number"`
	At     time.Time `json:"at"`
	// Why says where the version came from: "submitted", "rolled back to version 2: ...".
	Why string `json:"why"`
	Job Job    `json:"job"`
	// Proven says that all tasks have proven themselves with it, and it was not bad since.
	Proven bool `json:"proven,omitempty"`
	// Bad says why a change to it has gone wrong, or it did not come up; "": that has not happened, or it was proven since.
	Bad string `json:"bad,omitempty"`
	// Owner is the principal that has asked for the version, and for which its tasks run; "" in a cluster without
	// certificates.
	Owner string `json:"owner,omitempty"`
}

// Note is an event in the life of a job.
type Note struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// Status is a job as it is shown to people.
type Status struct {
	Name      string         `json:"name"`
	Type      Type           `json:"type"`
	Phase     Phase          `json:"phase"`
	Why       string         `json:"why,omitempty"` // why it has ended, or what is wrong while it runs
	Version   int            `json:"version"`
	Role      api.Role       `json:"role,omitempty"`
	Owner     string         `json:"owner,omitempty"` // of the version
	Submitted time.Time      `json:"submitted"`
	Ended     time.Time      `json:"ended,omitzero"`
	SubJobs   []SubJobStatus `json:"sub_jobs"`
	Roll      *RollStatus    `json:"roll,omitempty"`
	Next      time.Time      `json:"next,omitzero"`        // of a cron job: when its next run is due
	Runs      []CronRun      `json:"runs,omitempty"`       // of a cron job: those that have ended, the oldest first
	NewestRun int            `json:"newest_run,omitempty"` // of a cron job: the number of the run that began last
	Waiting   []string       `json:"waits,omitempty"`      // what keeps those that wait from an agent, for people
	Notes     []Note         `json:"notes,omitempty"`
	Tasks     []Assignment   `json:"tasks,omitempty"`
}

// Waits reports whether tasks of the job wait for an agent.
func (s Status) Waits() bool {
	return slices.ContainsFunc(s.SubJobs, func(sub SubJobStatus) bool { return sub.Waiting > 0 })
}

// SubJobStatus counts the tasks of a sub-job.
type SubJobStatus struct {
	Name    string `json:"name"`
	Tasks   int    `json:"tasks"`
	Waiting int    `json:"waiting"` // tasks that wait for an offer
	Pausing int    `json:"pausing"` // tasks that pause before another attempt
	Running int    `json:"running"` // tasks that are RUNNING on an agent
	Busy    int    `json:"busy"`    // tasks that an agent has or is getting, until they have ended
	Done    int    `json:"done"`    // indexes that ended well
	Failed  int    `json:"failed"`  // indexes that were given up
	// State is running, success, failure, skipped, or blocked; blocked means that the sub-jobs before it have not
	// ended.
	State string `json:"state"`
}

// RollStatus says how far the change of a service has come, or its beginning.
type RollStatus struct {
	To      int  `json:"to"`   // the new version
	From    int  `json:"from"` // the version before, to which a bad change goes back; 0: the job begins
	Changed int  `json:"changed"`
	Trying  int  `json:"trying"`
	Of      int  `json:"of"`
	Stopped bool `json:"stopped,omitempty"` // a changed task was bad, or none has proven itself for too long
	Back    bool `json:"back,omitempty"`    // it goes back to the version before
}

// Assignment is a task of a sub-job, and the agent that has it.
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
	Copy     bool              `json:"copy,omitempty"` // it is a copy of a slow task of the index
	Why      string            `json:"why,omitempty"`  // why it does not run well, such as the check that fails
}

// asText returns the task as JSON, by which tasks are compared.
func (t Task) asText() string {
	text, err := json.Marshal(t)
	if err != nil {
		return err.Error() // for a NaN, which Check refuses
	}
	return string(text)
}
