package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// Task is a task in the executor's hands. Its methods may be called from any goroutine.
type Task struct {
	api.Task
	// Sandbox is the path of the task's own folder. It is there when the task has a
	// command or fetched files; others call [Task.MakeSandbox] before they use it, so
	// that thousands of small tasks a second need no folders.
	Sandbox string
	// Shared is the folder that the tasks of its group share, and it is there; "": the task was launched by itself.
	Shared string
	// GPUs are those of the agent's that are the task's own until it ends, as many as it has asked for.
	GPUs []api.GPU
	// Framework, Agent and Hostname say whose it is and where it runs.
	Framework api.FrameworkID
	Agent     api.AgentID
	Hostname  string

	ledger  *ledger
	result  []byte // guarded by ledger.mu
	secrets map[string]protocol.Hidden
}

// Secret is the value of the secret that the task names for a variable of this name ([api.Secret].Env), and false if it
// names none. It is in memory alone: do not write it into a file of the sandbox, a status or a log. Secrets that are
// files are in the folder "secrets" of the sandbox.
func (t *Task) Secret(env string) ([]byte, bool) {
	value, named := t.secrets[env]
	return bytes.Clone(value), named
}

// MakeSandbox makes the task's own folder, unless it is there.
func (t *Task) MakeSandbox() error { return os.MkdirAll(t.Sandbox, 0o700) }

// Report is a step in a task's life, as an executor tells it.
type Report struct {
	State    api.TaskState
	Reason   api.Reason
	Message  string // for people; cut off after 4 KiB
	Data     []byte // for the scheduler; at most 64 KiB
	ExitCode *int
	Healthy  *bool
	// Output tells at the end of a task how much it has written to the files stdout and
	// stderr in its sandbox. Nil: not known.
	Output *api.OutputSize
	// ProcessGroup runs the task, since ProcessStart (clock ticks since boot), so that
	// the agent can account for it and end it. It must be of the executor's session, or
	// have been started with TENDER_EXECUTOR_SANDBOX or TENDER_TASK_SANDBOX as the
	// executor got them: what is not its own the agent leaves alone. 0: the executor
	// itself runs it.
	ProcessGroup int
	ProcessStart uint64

	progress bool // the next one may take its place
}

// Report tells the agent, and through it the scheduler: each report, in order. It is stored and repeated
// until the agent has it. An error means that it will not be told: the task has ended, can't move to this
// state, the data is too long, or reports of 256 KiB or 64 of them wait for the agent, which takes no more
// while the scheduler is behind (Limit). Whoever tells much calls [Task.Flush] after each.
func (t *Task) Report(report Report) error {
	if len(report.Data) > api.StatusDataBytesMax {
		return api.E("task.report", api.Limit, t.ID, fmt.Errorf("data has %d bytes, at most %d are allowed; put more into a file in the sandbox", len(report.Data), api.StatusDataBytesMax))
	}
	switch err := t.ledger.report(t.ID, report); {
	case errors.Is(err, errBehind):
		return api.E("task.report", api.Limit, t.ID, err)
	case err != nil:
		return api.E("task.report", api.Invalid, t.ID, err)
	}
	return nil
}

// Flush waits until the agent has taken all that was reported of the task, or ctx ends. The agent takes
// it at once while the scheduler keeps up, and later while that is behind or away.
func (t *Task) Flush(ctx context.Context) error {
	if !t.ledger.await(ctx, func() bool { return t.ledger.isTaken(t.ID) }) {
		return api.E("task.flush", api.KindOf(ctx.Err()), t.ID, ctx.Err())
	}
	return nil
}

// Progress reports RUNNING again with data and a message for the scheduler. Of many that the scheduler has
// not taken yet it hears the newest alone. What can't be told is left out: when the task has ended, the
// data is longer than 64 KiB, or many reports before it are not taken yet.
func (t *Task) Progress(data []byte, message string) {
	_ = t.Report(Report{State: api.TaskRunning, Data: data, Message: message, progress: true})
}

// Message sends bytes to the framework's scheduler, at most once: they are lost where the
// agent, a master or the scheduler is away just then. What must arrive goes by
// [Task.Report]. An error says that they were not even sent: more than 256 KiB, no
// session with the agent, or 4 MiB wait already.
func (t *Task) Message(data []byte) error {
	if len(data) > api.TaskBytesMax {
		return api.E("executor.message", api.Limit, t.ID, fmt.Errorf("%d bytes, at most %d are allowed", len(data), api.TaskBytesMax))
	}
	if err := t.ledger.message(bytes.Clone(data)); err != nil {
		return api.E("executor.message", api.Unavailable, t.ID, err)
	}
	return nil
}

// SetResult attaches data to the terminal status that follows the function's return:
// at most 64 KiB, or the task is FAILED instead.
func (t *Task) SetResult(data []byte) {
	t.ledger.mu.Lock()
	defer t.ledger.mu.Unlock()
	t.result = data
}

// end reports a terminal state with the result.
func (t *Task) end(report Report) {
	t.ledger.mu.Lock()
	report.Data = t.result
	t.ledger.mu.Unlock()
	err := t.Report(report)
	if api.Is(err, api.Limit) {
		_ = t.Report(Report{State: api.TaskFailed, Message: "the result can't be told: " + err.Error()})
	}
}

func (r Report) status(task api.TaskID, number uint64) protocol.ExecutorStatus {
	message := r.Message
	if len(message) > api.StatusMessageBytesMax {
		message = strings.ToValidUTF8(message[:api.StatusMessageBytesMax], "")
	}
	return protocol.ExecutorStatus{
		Task: task, Number: number, State: r.State, Reason: r.Reason, Message: message, Data: r.Data,
		ExitCode: r.ExitCode, Healthy: r.Healthy, Output: r.Output, ProcessGroup: r.ProcessGroup, ProcessStart: r.ProcessStart, Progress: r.progress,
	}
}

var (
	errEnded  = errors.New("the task has ended")
	errAway   = errors.New("no session with the agent; it was not sent")
	errFull   = fmt.Errorf("more than %d bytes of messages wait for the agent", messagesBytesMax)
	errBehind = errors.New("too many reports before it are not taken yet")
)
