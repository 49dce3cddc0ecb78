package api

import (
	"time"
)

// Task is what a framework asks to run. Everything but ID and Resources is optional.
type Task struct {
	ID        TaskID
	Name      string // for people; default: its ID
	Resources Resources
	// Executor runs the task. nil: the built-in executor for commands, which asks
	// for no resources of its own.
	Executor *Executor
	// Command is what the built-in executor starts.
	Command *Command
	// Image is an OCI image in which the built-in executor starts the command: a reference with a
	// tag or a digest, such as docker.io/library/alpine:3.20. The task sees the image's files and
	// its sandbox, and nothing of its agent's. A command without Argv and Shell, or none, is the
	// image's own; Argv goes to its entrypoint, Shell takes its place. Only agents whose attribute
	// "isolation" names images run it: [ImageConstraint].
	Image string
	// Data goes to the framework's own executor untouched.
	Data []byte
	// KillGrace is how long a killed task may take after SIGTERM before SIGKILL.
	// Default 5 s.
	KillGrace time.Duration
	// MaxCompletionTime ends the task that has run for so long: it is killed with its grace, and
	// FAILED (MAX_COMPLETION_TIME). Counted from its first RUNNING. Default: no limit.
	MaxCompletionTime time.Duration
	// Checks say whether it is well while it runs; default: none. At most [ChecksMax].
	Checks []Check
	Labels map[string]string
	Ports  map[string]uint16 // named ports, taken from Resources; each is told to the task as [PortVariable] says
	// Group names the tasks that a demand spreads together; see [Shape].
	Group string
	// Limits are what it may use at most, where that does not follow from Resources.
	Limits Limits
	// Secrets are what it is given of those that masters keep. At most [SecretsPerTaskMax].
	Secrets []Secret
	// Placement tells the masters how the task came to its agent, so that they can
	// count it; package locality fills it in. It goes no further.
	Placement Placement
}

// ImageConstraint is true for agents that run tasks in images: a constraint for demands.
const ImageConstraint = `"isolation" in attributes && attributes["isolation"].contains("images")`

// Limits bound what a task of the built-in executor may use, on agents whose machine can
// hold it to them: their attribute "isolation" says so. Zero fields mean what follows from
// the task's resources.
type Limits struct {
	// CPUs is the most of the processors that it gets, also when they lie idle. Default: what
	// nobody else wants.
	CPUs Milli
	// Mem is memory in MB, not less than it has asked for. Default: what it has asked for. A
	// task that needs more is killed: FAILED, with ReasonMemoryLimit.
	Mem Milli
	// Pids counts processes and threads. Default: what its agent allows. A task that fails
	// for want of another is FAILED with ReasonPidsLimit.
	Pids int64
}

// PlacementLevel is how near a task runs to what it prefers.
type PlacementLevel uint8

// The levels.
const (
	PlacedUnspecified PlacementLevel = iota // it prefers nothing, or nobody says
	PlacedNode                              // on a preferred agent
	PlacedNear                              // in the rack or zone of one
	PlacedAny                               // elsewhere
)

// Placement is how a task came to its agent.
type Placement struct {
	Level  PlacementLevel
	Waited time.Duration // for a nearer place
	// Idle is how long room was let pass for that and not used, summed over the tasks that it would have
	// held, since the launch before.
	Idle time.Duration
}

// DisplayName is the name, or the ID when there is none.
func (t Task) DisplayName() string {
	if t.Name != "" {
		return t.Name
	}
	return string(t.ID)
}

// CommandExecutor is the ID of the built-in executor for commands.
const CommandExecutor ExecutorID = "command"

// ExecutorID names the executor that runs the task.
func (t Task) ExecutorID() ExecutorID {
	if t.Executor == nil {
		return CommandExecutor
	}
	return t.Executor.ID
}

// Executor describes a framework's own executor. One of the same ID on the same
// agent serves all tasks that name it, and must be described alike in all of them.
type Executor struct {
	ID        ExecutorID
	Command   Command
	Resources Resources // its own, held while it runs
	Data      []byte
	// ShutdownGrace is how long it may take to end before SIGKILL. Default 5 s.
	ShutdownGrace time.Duration
	Labels        map[string]string
}

// Command is a program to start. Exactly one of Argv and Shell is set.
type Command struct {
	Argv  []string          // program and arguments, no shell; found in PATH of the agent
	Shell string            // a line for /bin/sh -c
	Env   map[string]string // all that it gets beside TENDER_TASK_* (R33)
	URIs  []URI             // fetched into the sandbox first
	// User is as whom it runs, a user of the agent's machine whom the agent allows. Default: as
	// the agent does it with all that ask for nobody.
	User string
}

// URI is a file that the agent brings into the sandbox before the start.
type URI struct {
	Source     string // file path, file://, http:// or https://
	Name       string // in the sandbox; default: the last part of Source
	SHA256     string // lower-case hex; required for http and https
	Executable bool
	Extract    bool // tar, tar.gz, zip
}

// Status is one step in a task's life. Those of an agent are numbered per task,
// stored before they are sent, and come again until they are acknowledged.
type Status struct {
	Framework FrameworkID
	Task      TaskID
	Agent     AgentID // "" when no agent ever had it
	Executor  ExecutorID
	// Number counts the statuses of the task at its agent from 1. 0: made by a
	// master, which needs no acknowledgement.
	Number uint64
	// Previous is the number of the status before this one, while that is not acknowledged; 0: nothing is to be told
	// before this one. The SDK keeps the order by it.
	Previous uint64
	State    TaskState
	Reason   Reason
	Message  string // for people: what happened, and what would be right
	Source   Mover  // who made it
	At       time.Time
	Data     []byte // from the executor
	ExitCode *int   // of a command that has ended; 128+signal when a signal ended it
	// Healthy tells whether the task passes all its checks; nil: it has none, or none is for readiness and not each has
	// been made. With one for readiness it is false from the first RUNNING on until all are passed.
	Healthy *bool
	// Output is what a command that has ended has written. Nil: not known.
	Output *OutputSize
	Given
	Whereabouts
}

// Whereabouts say where a task is and how it is reached, for a load balancer's file say. The leader tells them with each
// status of a task that has not ended, also after a failover and when a scheduler that has restarted asks; agents and
// executors leave them empty.
type Whereabouts struct {
	Hostname string            // of the agent
	Region   string            // of the agent
	Zone     string            // of the agent
	Labels   map[string]string // of the task
	Ports    map[string]uint16 // of the task, by their names
}

// Given is what its agent has given a task, as it says with each status.
type Given struct {
	// Image is what the task's image was when it was pulled: its name with a digest. "" for a task
	// without one, and before that.
	Image string
	// GPUs are the indices of those of the agent's that the task has, or had.
	GPUs []uint32
}

// GPUs is the name of the resource that is given to tasks by the piece.
const GPUs = "gpus"

// GPU is one of an agent's.
type GPU struct {
	// Index is its number on its agent, from 0.
	Index uint32
	// ID is its driver's name for it, as CUDA_VISIBLE_DEVICES takes it; its index where there is none.
	ID string
}

// OutputSize is the size of a task's two outputs, in bytes. They can be read from the
// task's agent.
type OutputSize struct {
	Stdout, Stderr int64
}

// Ref addresses the task.
func (s Status) Ref() TaskRef { return TaskRef{s.Framework, s.Task} }
