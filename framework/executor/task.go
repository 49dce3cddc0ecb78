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

// Task is a task that this executor runs. Its methods may be called from any goroutine.
type Task struct {
	api.Task
	// Sandbox is the path of the task's own folder. The folder exists if the task has a command or fetched files.
	// Otherwise call [Task.MakeSandbox] before you use it, so that thousands of small tasks a second need no folders.
	Sandbox string
	// Shared is the path of the folder that the tasks of its group share; the folder exists. "": the task was not
	// launched in a group.
	Shared string
	// GPUs are the agent's GPUs that belong to the task until it ends, as many as it has asked for.
	GPUs []api.GPU
	// Framework, Agent and Hostname say whose the task is and where it runs.
	Framework api.FrameworkID
	Agent     api.AgentID
	Hostname  string

	ledger  *ledger
	result  []byte // guarded by ledger.mu
	secrets map[string]protocol.Hidden
}

// Secret returns the value of the secret that the task names for this variable ([api.Secret].Env), and false if it
// names none. The value is only in memory: do not write it into a file of the sandbox, a status or a log. Secrets that
// are files are in the folder "secrets" of the sandbox.
func (t *Task) Secret(env string) ([]byte, bool) {
	value, named := t.secrets[env]
	return bytes.Clone(value), named
}

// MakeSandbox makes the task's own folder, unless it exists.
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
	// ProcessGroup is the process group that runs the task, and ProcessStart when its first process was started (clock
	// ticks since boot). By these the agent can account for the task and end it. The group must belong to the
	// executor's session, or have been started with TENDER_EXECUTOR_SANDBOX or TENDER_TASK_SANDBOX as the executor got
	// them: the agent leaves alone what is not its own. 0: the executor itself runs the task.
	ProcessGroup int
	ProcessStart uint64

	progress bool // a later report of progress may replace it
}

// Report tells a step in the task's life to the agent and, through it, to the scheduler. All reports are told, in
// order. A report is stored, and repeated until the agent has it. An error means that it will not be told: the task has
// ended or can't move to this state, or the data is too long, or 64 reports or 256 KiB of them already wait for the
// agent (Limit), which takes no more while the scheduler is behind. A caller that reports much should call [Task.Flush]
// after each report.
func (t *Task) Report(report Report) error {
	if len(report.Data) > api.StatusDataBytesMax {
		return api.E("task.report", api.Limit, t.ID, fmt.Errorf("data has %d bytes, at most %d are allowed; put more into a file in the sandbox", len(report.Data), api.StatusDataBytesMax))
	}
	switch err := t.ledger.addReport(t.ID, report); {
	case errors.Is(err, errBehind):
		return api.E("task.report", api.Limit, t.ID, err)
	case err != nil:
		return api.E("task.report", api.Invalid, t.ID, err)
	}
	return nil
}

// Flush waits until the agent has taken everything that was reported of the task, or until ctx ends. The agent takes it
// at once while the scheduler keeps up, and later while the scheduler is behind or away.
func (t *Task) Flush(ctx context.Context) error {
	if !t.ledger.awaitCondition(ctx, func() bool { return t.ledger.isTaken(t.ID) }) {
		return api.E("task.flush", api.KindOf(ctx.Err()), t.ID, ctx.Err())
	}
	return nil
}

// Progress reports RUNNING again, with data and a message for the scheduler. If the scheduler has not taken earlier
// progress yet, it is told only the newest. Progress that can't be told is dropped: when the task has ended, when the
// data is longer than 64 KiB, or when many reports before it are not taken yet.
func (t *Task) Progress(data []byte, message string) {
	_ = t.Report(Report{State: api.TaskRunning, Data: data, Message: message, progress: true})
}

// Message sends data to the framework's scheduler, at most once: the message is lost if the agent, a master or the
// scheduler is away at that moment. For what must arrive use [Task.Report]. An error means that the message was not
// even sent: it has more than 256 KiB, there is no session with the agent, or 4 MiB wait already.
func (t *Task) Message(data []byte) error {
	if len(data) > api.TaskBytesMax {
		return api.E("executor.message", api.Limit, t.ID, fmt.Errorf("%d bytes, at most %d are allowed", len(data), api.TaskBytesMax))
	}
	if err := t.ledger.queueMessage(bytes.Clone(data)); err != nil {
		return api.E("executor.message", api.Unavailable, t.ID, err)
	}
	return nil
}

// SetResult attaches data to the terminal status that follows when the function returns. At most 64 KiB; with more the
// task is FAILED.
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
