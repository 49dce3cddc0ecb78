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
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// Start says what to start.
type Start struct {
	Run api.ExecutorRef
	// Command is what becomes of the child; for the built-in executor the agent has
	// filled it in.
	Command api.Command
	Place
	Socket string
	// Token goes to the child by a descriptor, never by its environment (R32).
	Token           string
	RecoveryTimeout time.Duration
	// Resources are its own. Cell is what the built-in executor is told of the control groups
	// of its tasks; the launcher fills it in.
	Resources api.Resources
	Cell      string
	// Path is where programs are looked for, and PATH of an executor that asks for none.
	Path string
}

// Place is the folder of an executor, or of a task in one, and as whom it works there.
type Place struct {
	// Sandbox is the executor's own folder.
	Sandbox string
	// Builtin says that the executor is the agent's own: it stays the agent's user, whoever its
	// tasks are.
	Builtin bool
	// Task is the task's folder; "": the place is the executor's.
	Task string
	// User is whom the command asks for, "" for nobody.
	User string
}

// TaskPlace is the place of a task whose executor's folder holds it as tasks/TASK.
func TaskPlace(folder string, builtin bool, user string) Place {
	return Place{Sandbox: filepath.Dir(filepath.Dir(folder)), Builtin: builtin, Task: folder, User: user}
}

// Launcher starts executors. Its methods may run together.
type Launcher interface {
	// Fork makes the executor's folder, fetches its files and forks a child that waits.
	// An error that wraps a *FetchError is about the files.
	Fork(ctx context.Context, start Start) (Process, error)
	// Find returns a process that an earlier agent has started, or nil when it is gone.
	Find(id core.Process) Process
	// KillAll sends SIGKILL to all that the executor has left running until nothing of it
	// is left, or the context ends. It says how the executor came to its end when that was
	// for a limit.
	KillAll(ctx context.Context, owner Owner) (walls.End, error)
	// Kill sends SIGKILL to all of one task that has walls of its own, else to its process
	// group, and does not wait. A group that is not the executor's is left alone, with an
	// error of kind Denied.
	Kill(owner Owner, task api.TaskID, group core.Process) error
	// Prepare makes an executor's folder, and a task's in it if the place has one, as their
	// users', and fetches files into the last of them.
	Prepare(ctx context.Context, place Place, uris []api.URI) error
	// ShowSecrets puts files into the folder of secrets in a task's folder, which is there, in the place of those before: in
	// memory, for the task's user. HideSecrets takes them away.
	ShowSecrets(folder string, files map[string]protocol.Hidden) error
	HideSecrets(folder string) error
	// MoveAway frees the path of a folder at once and says where the folder is now, "" when there was none or nothing of
	// it needs to be deleted. Delete deletes it, which may take long; what is mounted in it stays, and what is needed to
	// reach that.
	MoveAway(path string) (away string, err error)
	Delete(away string) error
}

// Owner tells which processes are an executor's own: those in its cell. Where it has none, those of its session, and
// those that were started with its folder, or a folder in it, as TENDER_EXECUTOR_SANDBOX or TENDER_TASK_SANDBOX: a
// daemon that has left the session is found by that. What an executor says of process groups makes nothing its own.
type Owner struct {
	Executor api.ExecutorRef
	Leader   core.Process // the executor; the zero value: it never had a process
	Sandbox  string       // its folder
}

// Process is a child from its fork to its end.
type Process interface {
	ID() core.Process
	// Release opens the gate. Abandon ends a child that waits at it; later it does nothing.
	Release() error
	Abandon()
	// Wait blocks until the process has ended, or the context, and says how. Done is
	// false when only the context has ended.
	Wait(ctx context.Context) (message string, done bool)
}

// FetchError says that a file could not be brought into a sandbox.
type FetchError struct{ Err error }

func (e *FetchError) Error() string { return e.Err.Error() }
func (e *FetchError) Unwrap() error { return e.Err }

// Reason is the reason of the status that a failed start or preparation ends in.
func Reason(err error) api.Reason {
	var fetch *FetchError
	if errors.As(err, &fetch) {
		return api.ReasonFetchFailed
	}
	return api.ReasonLaunchFailed
}

// TokenFD is the descriptor from which an executor reads its token.
const TokenFD = "4"

// Environment is all that an executor gets (R33): what its command asks for, a PATH
// where that names none, and TENDER_EXECUTOR_*, which win.
func (s Start) Environment() []string {
	values := map[string]string{}
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
