package adapter

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/executor"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
)

// updatesMax is how many updates of a task are remembered, so that a copy of one of them is recognised. The agent has
// not acknowledged the last 64 at most.
const updatesMax = 128

// task is a task of the old executor, from its launch until the agent has its end.
type task struct {
	*executor.Task
	number  int // in the order in which the tasks came
	info    *mesosv1.TaskInfo
	group   []string       // the names of all tasks of its group; none: it has no group
	handed  bool           // the old executor was told of it, on a stream that took it
	heard   bool           // the old executor has said something of it
	kill    *time.Duration // within which the old executor is to end it; nil: it is not
	state   api.TaskState  // as Tender was told it
	updates []update       // the latest ones
	telling bool           // a goroutine waits for the agent to take updates
}

// update is an update that the old executor has sent.
type update struct {
	uuid  string
	taken bool // the agent has it
}

// name is the framework's name for the task.
func (t *task) name() string { return t.info.GetTaskId().GetValue() }

// living lists the tasks that have not ended, in the order in which they came. The caller holds mu.
func (a *adapter) living() (tasks []*task) {
	for _, t := range a.tasks { // order: sorted below
		if !t.state.Terminal() {
			tasks = append(tasks, t)
		}
	}
	slices.SortFunc(tasks, func(one, other *task) int { return cmp.Compare(one.number, other.number) })
	return tasks
}

// endTasks tells of the end of the tasks that have ended with their executor. The caller holds mu.
func (a *adapter) endTasks(why string) {
	for _, t := range a.living() {
		a.tell(t, own(mesosv1.TaskState_TASK_FAILED, mesosv1.TaskStatus_REASON_EXECUTOR_TERMINATED, why))
	}
}

// own is a status that Mesos's agent would make by itself.
func own(state mesosv1.TaskState, reason mesosv1.TaskStatus_Reason, message string) *mesosv1.TaskStatus {
	uuid := make([]byte, 16)
	_, _ = rand.Read(uuid) // it never fails
	uuid[6], uuid[8] = uuid[6]&0x0f|0x40, uuid[8]&0x3f|0x80
	return &mesosv1.TaskStatus{
		State: state.Enum(), Reason: reason.Enum(), Message: &message, Source: mesosv1.TaskStatus_SOURCE_AGENT.Enum(), Uuid: uuid,
	}
}

// tell reports a status that the adapter has made itself. The caller holds mu.
func (a *adapter) tell(t *task, status *mesosv1.TaskStatus) {
	a.complete(t, status)
	if err := a.report(t, status); err != nil {
		a.config.Log.Warn().Err(err).Str("task", t.name()).Stringer("state", status.GetState()).Msg("a status can't be told")
	}
	a.forgetEnded(t)
}

// complete fills in what executors leave to their agent.
func (a *adapter) complete(t *task, status *mesosv1.TaskStatus) {
	status.TaskId = t.info.GetTaskId()
	status.AgentId = t.info.GetAgentId()
	if status.ExecutorId == nil {
		status.ExecutorId = t.info.GetExecutor().GetExecutorId()
	}
	if status.Timestamp == nil {
		status.Timestamp = proto.Float64(float64(time.Now().UnixMicro()) / 1e6)
	}
	if status.ContainerStatus == nil {
		status.ContainerStatus = new(mesosv1.ContainerStatus)
	}
	in := status.ContainerStatus
	if in.ContainerId == nil {
		in.ContainerId = a.container()
	}
	if len(in.NetworkInfos) == 0 {
		in.NetworkInfos = []*mesosv1.NetworkInfo{{IpAddresses: []*mesosv1.NetworkInfo_IPAddress{{IpAddress: proto.String(machineIP())}}}}
	}
	if in.ExecutorPid == nil && a.program != nil {
		in.ExecutorPid = proto.Uint32(uint32(a.program.PID()))
	}
}

// errRefused marks an update that can't be told at all: the old executor is answered 400.
var errRefused = errors.New("the update can't be told")

// errBehind says that the agent has to take earlier updates first.
var errBehind = errors.New("earlier updates are not taken yet")

// takeUpdate takes an update of the old executor. It waits while the agent, or the scheduler behind it, has not taken
// the updates before. A copy is taken too, and changes nothing.
func (a *adapter) takeUpdate(ctx context.Context, status *mesosv1.TaskStatus) error {
	for {
		t, err := a.tryUpdate(status)
		if !errors.Is(err, errBehind) {
			return err
		}
		if err := t.Flush(ctx); err != nil {
			return err
		}
	}
}

func (a *adapter) tryUpdate(status *mesosv1.TaskStatus) (*task, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t, uuid := a.named[status.GetTaskId().GetValue()], string(status.GetUuid())
	if t == nil || t.state.Terminal() {
		// It has ended, and an executor may tell that twice; or nobody has launched it here. Who waits for an answer gets it.
		a.send(acknowledgedEvent(status.GetTaskId(), status.GetUuid()))
		return nil, nil
	}
	t.heard = true
	if at := slices.IndexFunc(t.updates, func(u update) bool { return u.uuid == uuid }); at >= 0 {
		if t.updates[at].taken {
			a.send(acknowledgedEvent(status.GetTaskId(), status.GetUuid()))
		}
		return t, nil
	}
	a.complete(t, status)
	if err := a.report(t, status); err != nil {
		return t, err
	}
	if len(t.updates) == updatesMax {
		t.updates = t.updates[1:]
	}
	t.updates = append(t.updates, update{uuid: uuid})
	if !t.telling {
		t.telling = true
		a.spawn(func() { a.acknowledge(t) })
	}
	return t, nil
}

// report tells the agent of a status. The caller holds mu.
func (a *adapter) report(t *task, status *mesosv1.TaskStatus) error {
	data, err := proto.Marshal(status)
	if err != nil {
		return errors.Join(errRefused, err)
	}
	if len(data) > api.StatusDataBytesMax {
		return fmt.Errorf("%w: it has %d bytes, at most %d are allowed; put more into a file in the sandbox", errRefused, len(data), api.StatusDataBytesMax)
	}
	report := executor.Report{State: stateOf(t.state, status.GetState()), Message: status.GetMessage(), Data: data, Healthy: status.Healthy}
	if report.State == api.TaskFailed {
		report.Reason = reasonOf(status)
		report.Message = cmp.Or(report.Message, strings.ToLower(strings.TrimPrefix(status.GetState().String(), "TASK_")))
	}
	err = t.Report(report)
	if api.Is(err, api.Invalid) && report.State == api.TaskRunning { // a kill of it is on its way here
		report.State = api.TaskKilling
		err = t.Report(report)
	}
	switch {
	case api.Is(err, api.Limit):
		return errBehind
	case err != nil:
		return errors.Join(errRefused, err)
	}
	t.state = report.State
	return nil
}

// stateOf returns what Tender is told of a task. Mesos lets an executor say any state at any time; Tender's agent is
// told a life that only goes forward, and the scheduler reads in the data what was said.
func stateOf(now api.TaskState, said mesosv1.TaskState) api.TaskState {
	switch said {
	case mesosv1.TaskState_TASK_FINISHED:
		return api.TaskFinished
	case mesosv1.TaskState_TASK_KILLED:
		return api.TaskKilled
	case mesosv1.TaskState_TASK_STARTING:
		return max(now, api.TaskStarting)
	case mesosv1.TaskState_TASK_KILLING:
		return api.TaskKilling
	case mesosv1.TaskState_TASK_RUNNING, mesosv1.TaskState_TASK_STAGING, mesosv1.TaskState_TASK_UNREACHABLE, mesosv1.TaskState_TASK_UNKNOWN:
		return max(now, api.TaskRunning)
	}
	return api.TaskFailed
}

// reasonOf returns Tender's reason for the end of a task.
func reasonOf(status *mesosv1.TaskStatus) api.Reason {
	if status.Reason == nil {
		return api.ReasonNone
	}
	switch status.GetReason() {
	case mesosv1.TaskStatus_REASON_EXECUTOR_TERMINATED:
		return api.ReasonExecutorTerminated
	case mesosv1.TaskStatus_REASON_EXECUTOR_REGISTRATION_TIMEOUT:
		return api.ReasonExecutorRegistrationTimeout
	case mesosv1.TaskStatus_REASON_AGENT_RESTARTED: // not the task's fault: Tender calls one that never ran DROPPED, too
		return api.ReasonAgentRestarted
	case mesosv1.TaskStatus_REASON_CONTAINER_LAUNCH_FAILED:
		return api.ReasonLaunchFailed
	case mesosv1.TaskStatus_REASON_TASK_HEALTH_CHECK_STATUS_UPDATED:
		return api.ReasonHealthCheckFailed
	case mesosv1.TaskStatus_REASON_MAX_COMPLETION_TIME_REACHED:
		return api.ReasonMaxCompletionTime
	}
	return api.ReasonNone
}

// acknowledge tells the old executor of updates that the agent has taken, until none is left. An executor keeps what
// was not acknowledged, and repeats it when it subscribes again.
func (a *adapter) acknowledge(t *task) {
	open := func(u update) bool { return !u.taken }
	for {
		a.mu.Lock()
		latest := slices.Clone(t.updates)
		if !slices.ContainsFunc(latest, open) {
			t.telling = false
			a.forgetEnded(t)
			a.mu.Unlock()
			return
		}
		a.mu.Unlock()
		if t.Flush(a.life) != nil {
			return // the adapter ends
		}
		a.mu.Lock()
		for i, u := range t.updates {
			if open(u) && slices.Contains(latest, u) {
				t.updates[i].taken = true
				a.send(acknowledgedEvent(t.info.GetTaskId(), []byte(u.uuid)))
			}
		}
		a.mu.Unlock()
	}
}

// forgetEnded forgets a task that has ended, once the old executor knows that the agent has its end. The caller holds mu.
func (a *adapter) forgetEnded(t *task) {
	if t.state.Terminal() && !t.telling {
		delete(a.tasks, t.ID)
		if a.named[t.name()] == t {
			delete(a.named, t.name())
		}
		a.launches = slices.DeleteFunc(a.launches, func(other *task) bool { return other == t })
	}
}
