package translate

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"syscall"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
)

// states are Mesos's names of Tender's states, for frameworks that are PARTITION_AWARE and for the others.
var states = map[api.TaskState]struct{ aware, unaware mesosv1.TaskState }{
	api.TaskStaging:        {mesosv1.TaskState_TASK_STAGING, mesosv1.TaskState_TASK_STAGING},
	api.TaskStarting:       {mesosv1.TaskState_TASK_STARTING, mesosv1.TaskState_TASK_STARTING},
	api.TaskRunning:        {mesosv1.TaskState_TASK_RUNNING, mesosv1.TaskState_TASK_RUNNING},
	api.TaskKilling:        {mesosv1.TaskState_TASK_KILLING, mesosv1.TaskState_TASK_KILLING},
	api.TaskFinished:       {mesosv1.TaskState_TASK_FINISHED, mesosv1.TaskState_TASK_FINISHED},
	api.TaskFailed:         {mesosv1.TaskState_TASK_FAILED, mesosv1.TaskState_TASK_FAILED},
	api.TaskKilled:         {mesosv1.TaskState_TASK_KILLED, mesosv1.TaskState_TASK_KILLED},
	api.TaskError:          {mesosv1.TaskState_TASK_ERROR, mesosv1.TaskState_TASK_ERROR},
	api.TaskDropped:        {mesosv1.TaskState_TASK_DROPPED, mesosv1.TaskState_TASK_LOST},
	api.TaskGone:           {mesosv1.TaskState_TASK_GONE, mesosv1.TaskState_TASK_LOST},
	api.TaskGoneByOperator: {mesosv1.TaskState_TASK_GONE_BY_OPERATOR, mesosv1.TaskState_TASK_LOST},
	api.TaskUnreachable:    {mesosv1.TaskState_TASK_UNREACHABLE, mesosv1.TaskState_TASK_LOST},
	api.TaskUnknown:        {mesosv1.TaskState_TASK_UNKNOWN, mesosv1.TaskState_TASK_LOST},
}

// State returns the state as the framework knows it.
func (f *Framework) State(state api.TaskState) mesosv1.TaskState {
	if f.PartitionAware() {
		return states[state].aware
	}
	return states[state].unaware
}

// known returns the state that an executor has told as the framework knows it.
func (f *Framework) known(state mesosv1.TaskState) mesosv1.TaskState {
	for _, names := range states { // order: irrelevant because all that have this name are unaware by the same one
		if names.aware == state && !f.PartitionAware() {
			return names.unaware
		}
	}
	return state
}

// reasons are Mesos's names of Tender's reasons. A reason that is not here has none, and its message tells it.
var reasons = map[api.Reason]mesosv1.TaskStatus_Reason{
	api.ReasonExecutorTerminated:          mesosv1.TaskStatus_REASON_EXECUTOR_TERMINATED,
	api.ReasonExecutorRegistrationTimeout: mesosv1.TaskStatus_REASON_EXECUTOR_REGISTRATION_TIMEOUT,
	api.ReasonLaunchFailed:                mesosv1.TaskStatus_REASON_CONTAINER_LAUNCH_FAILED,
	api.ReasonFetchFailed:                 mesosv1.TaskStatus_REASON_CONTAINER_LAUNCH_FAILED,
	api.ReasonSourceUnavailable:           mesosv1.TaskStatus_REASON_CONTAINER_LAUNCH_FAILED,
	api.ReasonSecretUnavailable:           mesosv1.TaskStatus_REASON_CONTAINER_LAUNCH_FAILED,
	api.ReasonPortTaken:                   mesosv1.TaskStatus_REASON_CONTAINER_LAUNCH_FAILED,
	api.ReasonMemoryLimit:                 mesosv1.TaskStatus_REASON_CONTAINER_LIMITATION_MEMORY,
	api.ReasonDiskLimit:                   mesosv1.TaskStatus_REASON_CONTAINER_LIMITATION_DISK,
	api.ReasonDiskFull:                    mesosv1.TaskStatus_REASON_CONTAINER_LIMITATION_DISK,
	api.ReasonPidsLimit:                   mesosv1.TaskStatus_REASON_CONTAINER_LIMITATION,
	api.ReasonMaxCompletionTime:           mesosv1.TaskStatus_REASON_MAX_COMPLETION_TIME_REACHED,
	api.ReasonPreempted:                   mesosv1.TaskStatus_REASON_CONTAINER_PREEMPTED,
	api.ReasonRevoked:                     mesosv1.TaskStatus_REASON_CONTAINER_PREEMPTED,
	api.ReasonAgentDraining:               mesosv1.TaskStatus_REASON_AGENT_DRAINING,
	api.ReasonAgentDisconnected:           mesosv1.TaskStatus_REASON_AGENT_DISCONNECTED,
	api.ReasonAgentRemoved:                mesosv1.TaskStatus_REASON_AGENT_REMOVED,
	api.ReasonAgentRestarted:              mesosv1.TaskStatus_REASON_AGENT_RESTARTED,
	api.ReasonAgentFailed:                 mesosv1.TaskStatus_REASON_AGENT_RESTARTED,
	api.ReasonAgentRebooted:               mesosv1.TaskStatus_REASON_AGENT_REMOVED,
	api.ReasonAgentGone:                   mesosv1.TaskStatus_REASON_AGENT_REMOVED_BY_OPERATOR,
	api.ReasonAgentReregistered:           mesosv1.TaskStatus_REASON_AGENT_REREGISTERED,
	api.ReasonFrameworkRemoved:            mesosv1.TaskStatus_REASON_FRAMEWORK_REMOVED,
	api.ReasonInvalidOffers:               mesosv1.TaskStatus_REASON_INVALID_OFFERS,
	api.ReasonTaskInvalid:                 mesosv1.TaskStatus_REASON_TASK_INVALID,
	api.ReasonTaskDuplicate:               mesosv1.TaskStatus_REASON_TASK_INVALID,
	api.ReasonTaskUnauthorized:            mesosv1.TaskStatus_REASON_TASK_UNAUTHORIZED,
	api.ReasonReconciliation:              mesosv1.TaskStatus_REASON_RECONCILIATION,
}

// UUID names a status of an agent: the same whenever it comes again, whichever gateway tells it.
func UUID(status api.Status) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s\n%v %d\n%d",
		status.Framework, status.Task, status.Agent, status.Launch.Term, status.Launch.Number, status.Number))
	uuid := sum[:16]
	uuid[6], uuid[8] = uuid[6]&0x0f|0x50, uuid[8]&0x3f|0x80 // version 5: made of a hash
	return uuid
}

// NeedsAcknowledgement says whether a status comes again until it is acknowledged: one of an agent that is no answer to
// a reconciliation.
func NeedsAcknowledgement(status api.Status) bool {
	return status.Number > 0 && status.Reason != api.ReasonReconciliation
}

// WriteStatus writes a status for the framework. One that an old executor has made is told as it was made, with its
// uuid; ip is an address of its agent. It has a uuid only if it needs an acknowledgement.
func (f *Framework) WriteStatus(status api.Status, ip string) *mesosv1.TaskStatus {
	s := new(mesosv1.TaskStatus)
	found := status.Observed()
	own := found == nil && len(status.Data) > 0 && proto.Unmarshal(status.Data, s) == nil
	if own {
		s.State = f.known(s.GetState()).Enum()
	} else {
		s = &mesosv1.TaskStatus{State: f.State(status.State).Enum(), Healthy: status.Healthy, CheckStatus: checkStatus(found)}
		if status.Message != "" {
			s.Message = ptr(status.Message)
		}
		s.Source = source(status).Enum()
		if reason, named := reasons[status.Reason]; named {
			s.Reason = reason.Enum()
		}
		if status.ExitCode != nil && !strings.HasPrefix(s.GetReason().String(), "REASON_CONTAINER_LIMITATION") { // whose message says of what
			s.Message = ptr(outcome(status))
			if status.State == api.TaskFailed && s.Reason == nil {
				s.Reason = mesosv1.TaskStatus_REASON_COMMAND_EXECUTOR_FAILED.Enum()
			}
		}
		f.writeHealth(s, status, found)
		if status.Executor != "" && status.Executor != api.CommandExecutor {
			s.ExecutorId = ExecutorID(status.Executor)
		} else if status.Executor != "" { // Mesos names a command's executor like its task
			s.ExecutorId = &mesosv1.ExecutorID{Value: ptr(UnescapeID(string(status.Task)))}
		}
	}
	s.TaskId = TaskID(status.Task)
	if status.Agent != "" {
		s.AgentId = AgentID(status.Agent)
	}
	if s.Timestamp == nil && !status.At.IsZero() {
		s.Timestamp = ptr(float64(status.At.UnixMicro()) / 1e6)
	}
	switch {
	case status.Reason == api.ReasonReconciliation:
		s.Uuid, s.Reason = nil, mesosv1.TaskStatus_REASON_RECONCILIATION.Enum()
	case !NeedsAcknowledgement(status):
		s.Uuid = nil
	case len(s.GetUuid()) != len(UUID(status)):
		s.Uuid = UUID(status)
	}
	if s.ContainerStatus == nil && status.Agent != "" && status.State != api.TaskStaging && (status.Number > 0 || !status.State.Settled()) {
		s.ContainerStatus = containerStatus(status, ip)
	}
	return s
}

// outcome says how a command has ended in Mesos's words, for which tools look.
func outcome(status api.Status) string {
	if code := *status.ExitCode; code > 128 && strings.HasPrefix(status.Message, "ended by signal ") {
		name := syscall.Signal(code - 128).String()
		return "Command terminated with signal " + strings.ToUpper(name[:1]) + name[1:]
	}
	return fmt.Sprintf("Command exited with status %d", *status.ExitCode)
}

// writeHealth tells what checks have found as the executor for commands does that comes with Mesos: a change as RUNNING
// with a reason, and the end of a task that was killed for its health as KILLED.
func (f *Framework) writeHealth(s *mesosv1.TaskStatus, status api.Status, found *api.CheckResult) {
	switch {
	case status.Executor != api.CommandExecutor:
	case status.Reason == api.ReasonHealthCheckFailed && status.State == api.TaskKilling:
		s.State, s.Reason = mesosv1.TaskState_TASK_RUNNING.Enum(), mesosv1.TaskStatus_REASON_TASK_HEALTH_CHECK_STATUS_UPDATED.Enum()
	case status.Reason == api.ReasonHealthCheckFailed:
		s.State, s.Reason = f.State(api.TaskKilled).Enum(), nil
	case status.State == api.TaskRunning && found != nil && found.Changed:
		s.Reason = mesosv1.TaskStatus_REASON_TASK_CHECK_STATUS_UPDATED.Enum()
	case status.State == api.TaskRunning && status.Healthy != nil:
		s.Reason = mesosv1.TaskStatus_REASON_TASK_HEALTH_CHECK_STATUS_UPDATED.Enum()
	}
}

// checkStatus writes what a task's check has found; nil if it has none.
func checkStatus(found *api.CheckResult) *mesosv1.CheckStatusInfo {
	if found == nil {
		return nil
	}
	all := new(mesosv1.CheckStatusInfo)
	switch found.Kind {
	case "http":
		all.Type, all.Http = mesosv1.CheckInfo_HTTP.Enum(), new(mesosv1.CheckStatusInfo_Http)
		if found.Known {
			all.Http.StatusCode = ptr(uint32(found.Code))
		}
	case "tcp":
		all.Type, all.Tcp = mesosv1.CheckInfo_TCP.Enum(), new(mesosv1.CheckStatusInfo_Tcp)
		if found.Known {
			all.Tcp.Succeeded = ptr(found.Passed)
		}
	default:
		all.Type, all.Command = mesosv1.CheckInfo_COMMAND.Enum(), new(mesosv1.CheckStatusInfo_Command)
		if found.Known {
			all.Command.ExitCode = ptr(int32(found.Code))
		}
	}
	return all
}

func source(status api.Status) mesosv1.TaskStatus_Source {
	switch {
	case status.Source == api.MoverMaster:
		return mesosv1.TaskStatus_SOURCE_MASTER
	case status.Source == api.MoverAgent:
		return mesosv1.TaskStatus_SOURCE_AGENT
	}
	return mesosv1.TaskStatus_SOURCE_EXECUTOR
}

// containerStatus says where a command runs: on its agent's network. Its container is named like its task, whole, so
// that whoever asks for the container can be led to the task.
func containerStatus(status api.Status, ip string) *mesosv1.ContainerStatus {
	return &mesosv1.ContainerStatus{
		ContainerId: &mesosv1.ContainerID{Value: ptr(status.Ref().String())},
		NetworkInfos: []*mesosv1.NetworkInfo{{
			IpAddresses: []*mesosv1.NetworkInfo_IPAddress{{Protocol: mesosv1.NetworkInfo_IPv4.Enum(), IpAddress: ptr(ip)}},
		}},
	}
}
