package wire

import (
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
)

// ExecutorCallsToProto makes one message of all calls, whatever its size. ExecutorCallBatches keeps below the limit.
func ExecutorCallsToProto(calls []protocol.ExecutorCall) *apiv1.ExecutorCalls {
	return &apiv1.ExecutorCalls{Calls: Each(calls, executorCallToProto)}
}

// ExecutorCallsAfter reads a message or a part of it, as [AgentCallsAfter] does.
func ExecutorCallsAfter(before int, m *apiv1.ExecutorCalls) ([]protocol.ExecutorCall, error) {
	return callsAfter("wire.executor", before, m.GetCalls(), one[*apiv1.ExecutorCall], (*checker).executorCall)
}

func executorCallToProto(call protocol.ExecutorCall) *apiv1.ExecutorCall {
	m := new(apiv1.ExecutorCall)
	switch call := call.(type) {
	case protocol.SubscribeExecutor:
		m.Call = &apiv1.ExecutorCall_Subscribe{Subscribe: &apiv1.SubscribeExecutor{
			FrameworkId: clean(call.Framework), ExecutorId: clean(call.Executor),
			Token: clean(call.Token), Version: clean(call.Version), Tasks: Texts(call.Tasks), More: call.More,
			Unacknowledged: Each(call.Unacknowledged, ExecutorStatusToProto)}}
	case protocol.ExecutorStatus:
		m.Call = &apiv1.ExecutorCall_Status{Status: ExecutorStatusToProto(call)}
	case protocol.ExecutorMessage:
		m.Call = &apiv1.ExecutorCall_Message{Message: &apiv1.ExecutorMessage{Data: call.Data}}
	case protocol.ExecutorHeartbeat:
		m.Call = &apiv1.ExecutorCall_Heartbeat{Heartbeat: &apiv1.ExecutorHeartbeat{}}
	}
	return m
}

func (c *checker) executorCall(m *apiv1.ExecutorCall) protocol.ExecutorCall {
	switch call := m.GetCall().(type) {
	case *apiv1.ExecutorCall_Subscribe:
		return c.subscribeExecutor(call.Subscribe)
	case *apiv1.ExecutorCall_Status:
		return c.executorStatus(call.Status)
	case *apiv1.ExecutorCall_Message:
		return protocol.ExecutorMessage{Data: call.Message.GetData()}
	case *apiv1.ExecutorCall_Heartbeat:
		return protocol.ExecutorHeartbeat{}
	}
	c.failKind(api.Unsupported, "a call of a kind that is unknown here; is the agent older than the executor?")
	return nil
}

func (c *checker) subscribeExecutor(m *apiv1.SubscribeExecutor) protocol.SubscribeExecutor {
	return protocol.SubscribeExecutor{
		ExecutorRef: c.executorRef(m.GetFrameworkId(), m.GetExecutorId()),
		Token:       c.text("token", m.GetToken()),
		Version:     c.text("version", m.GetVersion()),
		Tasks:       typed[api.TaskID](m.GetTasks(), c.ids("task ID")),
		More:        m.GetMore(),

		Unacknowledged: Each(m.GetUnacknowledged(), c.executorStatus),
	}
}

// ExecutorStatusToProto makes the message of a status of an executor. A long message
// is cut off.
func ExecutorStatusToProto(status protocol.ExecutorStatus) *apiv1.ExecutorStatus {
	return &apiv1.ExecutorStatus{
		TaskId:       clean(status.Task),
		Number:       status.Number,
		State:        apiv1.TaskState(status.State),
		Reason:       apiv1.Reason(status.Reason),
		Message:      cut(clean(status.Message), api.StatusMessageBytesMax),
		Data:         status.Data,
		ExitCode:     exitToProto(status.ExitCode),
		Healthy:      status.Healthy,
		Output:       outputToProto(status.Output),
		ProcessGroup: int32(status.ProcessGroup),
		ProcessStart: status.ProcessStart,
		Progress:     status.Progress,
	}
}

func (c *checker) executorStatus(m *apiv1.ExecutorStatus) protocol.ExecutorStatus {
	if m == nil {
		c.fail("no status is there")
		return protocol.ExecutorStatus{}
	}
	if size := len(m.GetData()); size > api.StatusDataBytesMax {
		c.failKind(api.Limit, "data of a status has %d bytes, at most %d are allowed", size, api.StatusDataBytesMax)
	}
	if m.GetProcessGroup() < 0 || m.GetProcessGroup() == 1 {
		c.fail("process group %d can't be a task's", m.GetProcessGroup())
	}
	if m.GetNumber() == 0 {
		c.fail("a status of an executor has no number; they count from 1")
	}
	return protocol.ExecutorStatus{
		Task:         api.TaskID(c.id("task ID", m.GetTaskId())),
		Number:       m.GetNumber(),
		State:        c.taskState(m.GetState()),
		Reason:       c.reason(m.GetReason()),
		Message:      cut(m.GetMessage(), api.StatusMessageBytesMax),
		Data:         m.GetData(),
		ExitCode:     exitFromProto(m.ExitCode),
		Healthy:      m.Healthy,
		Output:       c.output(m.Output),
		ProcessGroup: int(m.GetProcessGroup()),
		ProcessStart: m.GetProcessStart(),
		Progress:     m.GetProgress(),
	}
}

// ExecutorEventsToProto makes one message of all events, whatever its size. ExecutorEventBatches keeps below the limit.
func ExecutorEventsToProto(events []protocol.ExecutorEvent) *apiv1.ExecutorEvents {
	return &apiv1.ExecutorEvents{Events: Each(events, executorEventToProto)}
}

// ExecutorEventsFromProto reads a batch. Events that this version does not know are left out. No message of an agent
// causes an error at present.
func ExecutorEventsFromProto(m *apiv1.ExecutorEvents) ([]protocol.ExecutorEvent, error) {
	return eachKnown(m.GetEvents(), executorEventFromProto), nil
}

func executorEventToProto(event protocol.ExecutorEvent) *apiv1.ExecutorEvent {
	m := new(apiv1.ExecutorEvent)
	switch event := event.(type) {
	case protocol.ExecutorSubscribed:
		m.Event = &apiv1.ExecutorEvent_Subscribed{Subscribed: &apiv1.ExecutorSubscribed{
			AgentId: clean(event.Agent), Hostname: clean(event.Hostname), Executor: ExecutorToProto(&event.Executor),
			Framework: FrameworkToProto(event.Framework), RecoveryTimeout: DurationToProto(event.RecoveryTimeout)}}
	case protocol.ExecutorLaunch:
		m.Event = &apiv1.ExecutorEvent_Launch{Launch: &apiv1.ExecutorLaunch{
			Task: TaskToProto(event.Task), Sandbox: clean(event.Sandbox), Shared: clean(event.Shared), Gpus: gpusToProto(event.GPUs),
			Secrets: hiddenToProto(event.Secrets)}}
	case protocol.ExecutorKill:
		m.Event = &apiv1.ExecutorEvent_Kill{Kill: &apiv1.ExecutorKill{
			TaskId: clean(event.Task), Grace: DurationToProto(event.Grace)}}
	case protocol.ExecutorAcknowledged:
		m.Event = &apiv1.ExecutorEvent_Acknowledged{Acknowledged: &apiv1.ExecutorAcknowledged{
			TaskId: clean(event.Task), Number: event.Number}}
	case protocol.ExecutorMessage:
		m.Event = &apiv1.ExecutorEvent_Message{Message: &apiv1.ExecutorMessage{Data: event.Data}}
	case protocol.ExecutorShutdown:
		m.Event = &apiv1.ExecutorEvent_Shutdown{Shutdown: &apiv1.ExecutorShutdown{Grace: DurationToProto(event.Grace)}}
	}
	return m
}

// executorEventFromProto returns nil for an event that this version does not know.
func executorEventFromProto(m *apiv1.ExecutorEvent) protocol.ExecutorEvent {
	c := trusting()
	switch event := m.GetEvent().(type) {
	case *apiv1.ExecutorEvent_Subscribed:
		one := event.Subscribed
		subscribed := protocol.ExecutorSubscribed{Agent: api.AgentID(one.GetAgentId()), Hostname: one.GetHostname(),
			Framework: c.framework(one.GetFramework()), RecoveryTimeout: c.duration("", one.GetRecoveryTimeout())}
		if executor := ExecutorFromProto(one.GetExecutor()); executor != nil {
			subscribed.Executor = *executor
		}
		return subscribed
	case *apiv1.ExecutorEvent_Launch:
		one := event.Launch
		return protocol.ExecutorLaunch{
			Task: TaskFromProto(one.GetTask()), Sandbox: one.GetSandbox(), Shared: one.GetShared(), GPUs: gpusFromProto(one.GetGpus()),
			Secrets: hiddenFromProto(one.GetSecrets()),
		}
	case *apiv1.ExecutorEvent_Kill:
		return protocol.ExecutorKill{Task: api.TaskID(event.Kill.GetTaskId()), Grace: c.duration("", event.Kill.GetGrace())}
	case *apiv1.ExecutorEvent_Acknowledged:
		one := event.Acknowledged
		return protocol.ExecutorAcknowledged{Task: api.TaskID(one.GetTaskId()), Number: one.GetNumber()}
	case *apiv1.ExecutorEvent_Message:
		return protocol.ExecutorMessage{Data: event.Message.GetData()}
	case *apiv1.ExecutorEvent_Shutdown:
		return protocol.ExecutorShutdown{Grace: c.duration("", event.Shutdown.GetGrace())}
	}
	return nil
}

func gpusToProto(gpus []api.GPU) []*apiv1.GPU {
	var all []*apiv1.GPU
	for _, gpu := range gpus {
		all = append(all, &apiv1.GPU{Index: gpu.Index, Id: clean(gpu.ID)})
	}
	return all
}

func gpusFromProto(gpus []*apiv1.GPU) []api.GPU {
	var all []api.GPU
	for _, gpu := range gpus {
		all = append(all, api.GPU{Index: gpu.GetIndex(), ID: gpu.GetId()})
	}
	return all
}

func hiddenToProto(values map[string]protocol.Hidden) map[string][]byte {
	if len(values) == 0 {
		return nil
	}
	all := make(map[string][]byte, len(values))
	for name, value := range values { // order: irrelevant because a map is made
		all[clean(name)] = value
	}
	return all
}

func hiddenFromProto(values map[string][]byte) map[string]protocol.Hidden {
	if len(values) == 0 {
		return nil
	}
	all := make(map[string]protocol.Hidden, len(values))
	for name, value := range values { // order: irrelevant because a map is made
		all[name] = value
	}
	return all
}
