// Package executor starts executors and removes what they leave behind: the interface, and what its implementations
// share. Package process implements it with real processes, package fake with functions, for clusters in memory.
package executor

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/walls"
	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/datafolder"
	"github.com/tenderhq/tender/internal/protocol"
)

// Start says what to start.
type Start struct {
	Run api.ExecutorRef
	// Command is the program that the child becomes. For the built-in executor the agent has filled it in.
	Command api.Command
	Place
	Socket string
	// Token goes to the child through a file descriptor, never through its environment. (R32)
	Token           string
	RecoveryTimeout time.Duration
	// Resources are the executor's own. Cell is what the built-in executor is told of the control groups of its tasks;
	// the launcher fills it in.
	Resources api.Resources
	Cell      string
	// Path is the list of folders in which programs are looked for. It is also the PATH of an executor whose command
	// sets none.
	Path string
}

// Place is the folder of an executor, or of a task of an executor, and the user as which it works there.
type Place struct {
	// Sandbox is the executor's own folder.
	Sandbox string
	// Builtin says that the executor is the agent's own. It runs as the agent's user, as whatever users its tasks run.
	Builtin bool
	// Task is the task's folder; "": the place is the executor's.
	Task string
	As
	// DiskMax bounds what files may take that are fetched, in bytes; 0: nothing does.
	DiskMax int64
}

// As says as whom a command runs.
type As struct {
	// User is the user that the command asks for; "": it asks for none.
	User string
	// Owner is the principal for whom the framework runs the task; "": the framework's own. (Protocol rule R60.)
	Owner string
}

// AsOf returns as whom a task runs.
func AsOf(task *api.Task) As { return As{User: task.RunsAs(), Owner: task.Owner} }

// TaskPlace returns the place of a task. folder is the task's folder, which is tasks/TASK in its executor's folder.
func TaskPlace(folder string, builtin bool, as As) Place {
	return Place{Sandbox: filepath.Dir(filepath.Dir(folder)), Builtin: builtin, Task: folder, As: as}
}

// Launcher starts executors. Its methods may run at the same time.
type Launcher interface {
	// Fork makes the executor's folder, fetches its files and forks a child that waits.
	// An error that wraps a *FetchError is about the files.
	Fork(ctx context.Context, start Start) (Process, error)
	// Find returns a process that an earlier agent has started, or nil when it is gone.
	Find(id core.Process) Process
	// KillAll sends SIGKILL to all processes of the executor and its tasks until none is left, or the context ends. It
	// returns which limit has ended the executor, if one has.
	KillAll(ctx context.Context, owner Owner) (walls.End, error)
	// Kill sends SIGKILL to all processes of a task that has a cell of its own, else to the task's process group. It
	// does not wait for their end. A group that is not the executor's is left alone, with an error of kind Denied.
	Kill(owner Owner, task api.TaskID, group core.Process) error
	// Prepare makes the folder of an executor, and that of a task if the place has one. Each folder belongs to its
	// user. Prepare fetches files into the task's folder, or, without a task, into the executor's.
	Prepare(ctx context.Context, place Place, uris []api.URI) error
	// TryPorts returns a PortError if another program of the machine has one of the named ports.
	TryPorts(ports map[string]uint16) error
	// ShowSecrets puts files into the folder for secrets in a task's folder, which must exist. They replace those that
	// were there. They are kept in memory, and only the task's user can read them. HideSecrets removes them.
	ShowSecrets(folder string, files map[string]protocol.Hidden) error
	HideSecrets(folder string) error
	// MoveAway frees the path of a folder at once, and returns where the folder is now; "" if there was no folder, or
	// if nothing of it needs to be deleted. Delete deletes the folder that was moved away, which may take long.
	// Whatever is mounted in it stays, with the folders that lead to it. free says that no process can have it open.
	MoveAway(path string, free bool) (away string, err error)
	Delete(away string) error
}

// Owner says which processes are an executor's own. These are the processes in its cell. Where it has no cell, they are
// the processes of its session, and those that were started with its folder, or a folder in it, as
// TENDER_EXECUTOR_SANDBOX or TENDER_TASK_SANDBOX in the environment, by which daemons that have left the session are
// found. A process group is not the executor's own because the executor says so. (R11)
type Owner struct {
	Executor api.ExecutorRef
	Leader   core.Process // the executor's process; zero: it never had one
	Sandbox  string       // the executor's folder
}

// Process is a child from its fork to its end.
type Process interface {
	ID() core.Process
	// Release opens the gate. Abandon ends a child that waits at its gate, and does nothing to one that has passed it.
	Release() error
	Abandon()
	// Wait blocks until the process or the context has ended. message says how the process has ended. done is false if
	// only the context has ended.
	Wait(ctx context.Context) (message string, done bool)
}

// FetchError says that a file or an image could not be brought into a sandbox.
type FetchError struct {
	Err      error
	Away     bool // whoever has it does not answer, or says to come back later
	TooLarge bool // the files take more than Place.DiskMax
}

func (e *FetchError) Error() string { return e.Err.Error() }
func (e *FetchError) Unwrap() error { return e.Err }

// PortError says that another program has a port that is to be a task's.
type PortError struct{ Err error }

func (e *PortError) Error() string { return e.Err.Error() }
func (e *PortError) Unwrap() error { return e.Err }

// CommandError says that what was asked for can't be run: there is no such program, or no such user.
type CommandError struct{ Err error }

func (e *CommandError) Error() string { return e.Err.Error() }
func (e *CommandError) Unwrap() error { return e.Err }

// Reason returns the reason for the status of a task whose start or preparation has failed with this error. What is not
// known to be the fault of the task, of its machine or of somebody else, is the agent's.
func Reason(err error) api.Reason {
	var fetch *FetchError
	var port *PortError
	var command *CommandError
	switch {
	case errors.As(err, &fetch) && fetch.TooLarge:
		return api.ReasonDiskLimit
	case datafolder.IsDiskFull(err):
		return api.ReasonDiskFull
	case errors.As(err, &fetch) && fetch.Away:
		return api.ReasonSourceUnavailable
	case errors.As(err, &fetch):
		return api.ReasonFetchFailed
	case errors.As(err, &port):
		return api.ReasonPortTaken
	case errors.As(err, &command):
		return api.ReasonLaunchFailed
	}
	return api.ReasonAgentFailed
}

// TokenFD is the file descriptor from which an executor reads its token.
const TokenFD = "4"

// Environment returns the whole environment of an executor that runs as this user: the variables that its command sets,
// PATH and those of entry.Session that the command does not set, and TENDER_EXECUTOR_*, which replace variables of the
// same names. (R33)
func (s Start) Environment(user entry.User) []string {
	values := entry.Session(user, s.Sandbox)
	if s.Path != "" {
		values["PATH"] = s.Path
	}
	maps.Copy(values, s.Command.Env)
	values[protocol.ExecutorSocketEnv] = s.Socket
	values[protocol.ExecutorFrameworkIDEnv] = string(s.Run.Framework)
	values[protocol.ExecutorIDEnv] = string(s.Run.Executor)
	values[protocol.ExecutorTokenFDEnv] = TokenFD
	values[protocol.ExecutorSandboxEnv] = s.Sandbox
	values[protocol.ExecutorRecoveryTimeoutEnv] = s.RecoveryTimeout.String()
	if s.Cell != "" {
		values[protocol.ExecutorCellEnv] = s.Cell
	}
	environment := make([]string, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		environment = append(environment, name+"="+values[name])
	}
	return environment
}
