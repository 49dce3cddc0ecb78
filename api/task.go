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
	// Image is an OCI image in which the built-in executor starts the command: a reference with a tag or a digest, such
	// as docker.io/library/alpine:3.20. The task sees the files of the image and its own sandbox, and no files of the
	// agent's machine. Without a command, or with one that sets neither Argv nor Shell, the image's own command runs.
	// Argv is passed to the image's entrypoint; Shell replaces the entrypoint. Only agents whose attribute "isolation"
	// includes images can run the task: [ImageConstraint].
	Image string
	// Data is passed to the framework's own executor unchanged.
	Data []byte
	// KillGrace is how long a killed task may take after SIGTERM before SIGKILL.
	// Default 5 s.
	KillGrace time.Duration
	// KillSignal is what the built-in executor sends in place of SIGTERM: one of SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1,
	// SIGUSR2 and SIGWINCH. Default: the signal that the task's image names, or else SIGTERM.
	KillSignal string
	// MaxCompletionTime limits how long the task may run, counted from its first RUNNING. A task that runs for longer
	// is killed with its grace, and ends FAILED (MAX_COMPLETION_TIME). Default: no limit.
	MaxCompletionTime time.Duration
	// Checks find out whether the running task is healthy. At most [ChecksMax]. Default: none.
	Checks []Check
	Labels map[string]string
	Ports  map[string]uint16 // named ports, taken from Resources; [PortVariable] names each port's variable
	// Group names the tasks that a demand spreads together; see [Shape].
	Group string
	// Limits are the most that the task may use, where that does not follow from Resources.
	Limits Limits
	// Secrets are the secrets that the task gets, of those that the masters keep. At most [SecretsPerTaskMax].
	Secrets []Secret
	// Owner is the principal for whom the framework runs the task: this principal may do to it what it may do to tasks of
	// its own. On agents that run each framework's tasks as a user of their own, the tasks of each owner have such a user.
	// Default: the framework's principal. Only for tasks of the built-in executor.
	Owner string
	// Placement tells the masters how the task came to its agent, so that they can count it. Package locality fills it
	// in. The agent is not told.
	Placement Placement
}

// ImageConstraint is a constraint for demands. It is true for agents that can run tasks in images.
const ImageConstraint = `"isolation" in attributes && attributes["isolation"].contains("images")`

// Limits bounds what a task of the built-in executor may use. It holds on agents whose machine can enforce it, which
// their attribute "isolation" says. A field of zero means the limit that follows from the task's resources.
type Limits struct {
	// CPUs is the most processors that the task gets, even when others lie idle. Default: no limit beside what other
	// tasks want.
	CPUs Milli
	// Mem is memory in MB, not less than the task asks for. Default: what the task asks for. A task that needs more is
	// killed and ends FAILED with ReasonMemoryLimit.
	Mem Milli
	// Pids bounds the task's processes and threads together. Default: the agent's own limit. A task that fails because
	// it could not start another one ends FAILED with ReasonPidsLimit.
	Pids int64
}

// PlacementLevel is how near a task runs to what it prefers.
type PlacementLevel uint8

// The levels of placement, the nearest first.
const (
	PlacedUnspecified PlacementLevel = iota // the task prefers no agent, or nobody has said
	PlacedNode                              // on a preferred agent
	PlacedNear                              // in the rack or zone of a preferred agent
	PlacedAny                               // elsewhere
)

// Placement is how a task came to its agent.
type Placement struct {
	Level  PlacementLevel
	Waited time.Duration // how long the task waited for a nearer place
	// Idle is how long room was left unused for the sake of such waiting since the previous launch, summed over the
	// tasks that the room would have held.
	Idle time.Duration
}

// DisplayName returns the task's name, or its ID if it has no name.
func (t Task) DisplayName() string {
	if t.Name != "" {
		return t.Name
	}
	return string(t.ID)
}

// CommandExecutor is the ID of the built-in executor for commands.
const CommandExecutor ExecutorID = "command"

// ExecutorID returns the ID of the executor that runs the task.
func (t Task) ExecutorID() ExecutorID {
	if t.Executor == nil {
		return CommandExecutor
	}
	return t.Executor.ID
}

// Executor describes a framework's own executor. On each agent one executor of an ID runs all tasks that name this ID,
// so all of them must describe it alike.
type Executor struct {
	ID        ExecutorID
	Command   Command
	Resources Resources // the executor's own, held while it runs
	Data      []byte
	// ShutdownGrace is how long the executor may take to end before SIGKILL. Default 5 s.
	ShutdownGrace time.Duration
	Labels        map[string]string
}

// Command is a program to start. Exactly one of Argv and Shell is set.
type Command struct {
	Argv  []string          // program and arguments, no shell; found in PATH of the agent
	Shell string            // a line for /bin/sh -c
	Env   map[string]string // the whole environment beside TENDER_TASK_* (R33)
	URIs  []URI             // fetched into the sandbox first
	// User is the user as whom the command runs: one of the agent's machine that the agent allows. Default: the user
	// that the agent chooses for commands that name none.
	User string
	// Dir is the folder in which the command begins: one below the sandbox, or an absolute path of the agent's machine or
	// of the task's image. It must be there once the files are fetched; in an image it is made. Default: the sandbox, or
	// the folder that the image names.
	Dir string
}

// URI is a file that the agent fetches into the sandbox before the command starts.
type URI struct {
	Source     string // file path, file://, http:// or https://
	Name       string // name in the sandbox; default: the last part of Source
	SHA256     string // lower-case hex; required for http and https
	Executable bool
	Extract    bool // unpack the file: tar, tar.gz, zip
}

// Status is one step in a task's life. The statuses that an agent makes are numbered per task, stored before they are
// sent, and sent again until they are acknowledged.
type Status struct {
	Framework FrameworkID
	Task      TaskID
	Agent     AgentID // "" when no agent ever had it
	Executor  ExecutorID
	// Number counts the statuses that the agent has made for the task, from 1. 0: a master made the status, which needs
	// no acknowledgement.
	Number uint64
	// Previous is the number of the status before this one, as long as that one is not acknowledged. 0: no status must
	// be told before this one. By it the SDK tells statuses in order.
	Previous uint64
	// Launch is the launch of the task that the status is about. Zero: it is a master's answer about a task of which the
	// master knows no launch.
	Launch   LaunchID
	State    TaskState
	Reason   Reason
	Message  string // for people: what happened, and what would be right
	Source   Mover  // who made it
	At       time.Time
	Data     []byte // from the executor
	ExitCode *int   // of a command that has ended; 128+signal if a signal ended it
	// Healthy says whether the task passes all its checks. It is nil while the task has no checks, or if none of them
	// is a readiness check and not each has been made yet. With a readiness check it is false from the first RUNNING
	// until all checks have passed.
	Healthy *bool
	// Output is what a command that has ended has written. Nil: not known.
	Output      *OutputSize
	Given       // Image and GPUs: what its agent gave the task
	Whereabouts // Hostname, Region, Zone, Labels and Ports: how the task is reached; empty at its end
}

// Whereabouts say where a task is and how it is reached, for example for a load balancer's configuration. The leader
// adds them to each status of a task that has not ended, also after a failover and when a scheduler has restarted.
// Agents and executors leave them empty.
type Whereabouts struct {
	Hostname string            // of the agent
	Region   string            // of the agent
	Zone     string            // of the agent
	Labels   map[string]string // of the task
	Ports    map[string]uint16 // of the task, by their names
}

// Given is what the agent has given a task; each status of the agent repeats it.
type Given struct {
	// Image is the name and digest of the task's image as it was pulled. "" for a task without an image, and before the
	// image was pulled.
	Image string
	// GPUs are the indices of the agent's GPUs that the task has, or had.
	GPUs []uint32
}

// GPUs is the name of the resource whose units are given to tasks whole.
const GPUs = "gpus"

// GPU is one GPU of an agent.
type GPU struct {
	// Index is the number of the GPU on its agent, from 0.
	Index uint32
	// ID is the driver's name for the GPU, in the form that CUDA_VISIBLE_DEVICES takes. Where the driver gives no name
	// it is the index.
	ID string
}

// OutputSize is the size of a task's two outputs, in bytes. They can be read from the
// task's agent.
type OutputSize struct {
	Stdout, Stderr int64
}

// Ref returns the address of the task.
func (s Status) Ref() TaskRef { return TaskRef{s.Framework, s.Task} }
