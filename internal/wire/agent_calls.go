package wire

import (
	"strconv"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
)

// AgentCallsToProto makes one message of all calls, whatever its size. AgentCallBatches keeps below the limit.
func AgentCallsToProto(calls []protocol.AgentCall) *apiv1.AgentCalls {
	return &apiv1.AgentCalls{Calls: Each(calls, agentCallToProto)}
}

// AgentCallsAfter reads a message or a part of it, and checks it; before is how many calls came before it in the message.
// An error means that the stream must not go on; the calls before the wrong one are returned too.
func AgentCallsAfter(before int, m *apiv1.AgentCalls) ([]protocol.AgentCall, error) {
	return callsAfter("wire.agent", before, m.GetCalls(), agentCallItems, (*checker).agentCall)
}

// callsAfter reads calls whose sender is not answered call by call.
func callsAfter[M, Call any](op string, before int, messages []M, items func(M) int, read func(*checker, M) Call) ([]Call, error) {
	if err := checkCalls(op, messages, items); err != nil {
		return nil, err
	}
	calls := make([]Call, 0, len(messages))
	for i, message := range messages {
		c := new(checker)
		call := read(c, message)
		if err := c.refusal(op, ""); err != nil {
			err.Subject = "call " + strconv.Itoa(before+i+1)
			return calls, err
		}
		calls = append(calls, call)
	}
	return calls, nil
}

func agentCallToProto(call protocol.AgentCall) *apiv1.AgentCall {
	m := new(apiv1.AgentCall)
	switch call := call.(type) {
	case protocol.RegisterAgent:
		m.Call = &apiv1.AgentCall_Register{Register: &apiv1.RegisterAgent{
			ClusterId: clean(call.Cluster), Version: clean(call.Version), Agent: AgentToProto(call.Agent),
			Nonce: clean(call.Nonce), BootId: clean(call.BootID)}}
	case protocol.ReregisterAgent:
		m.Call = &apiv1.AgentCall_Reregister{Reregister: &apiv1.ReregisterAgent{
			ClusterId: clean(call.Cluster), Term: TermToProto(call.Term), Version: clean(call.Version),
			Agent: AgentToProto(call.Agent), Nonce: clean(call.Nonce), BootId: clean(call.BootID)}}
	case protocol.AgentReport:
		m.Call = &apiv1.AgentCall_Report{Report: reportToProto(call)}
	case protocol.AgentHeartbeat:
		m.Call = &apiv1.AgentCall_Heartbeat{Heartbeat: &apiv1.AgentHeartbeat{
			Usage: UsageReportToProto(call.Usage), Unable: cut(clean(call.Unable), api.TextBytesMax)}}
	case protocol.StatusUpdate:
		m.Call = &apiv1.AgentCall_Status{Status: StatusToProto(call.Status)}
	case protocol.ExecutorEnded:
		m.Call = &apiv1.AgentCall_ExecutorEnded{ExecutorEnded: &apiv1.ExecutorEnded{
			FrameworkId: clean(call.Framework), ExecutorId: clean(call.Executor),
			Message: cut(clean(call.Message), api.StatusMessageBytesMax), Again: call.Again, NextLaunch: call.NextLaunch}}
	case protocol.MessageFromExecutor:
		m.Call = &apiv1.AgentCall_Message{Message: &apiv1.MessageFromExecutor{
			FrameworkId: clean(call.Framework), ExecutorId: clean(call.Executor), Data: call.Data}}
	case protocol.KillTaken:
		m.Call = &apiv1.AgentCall_KillTaken{KillTaken: &apiv1.KillTaken{
			FrameworkId: clean(call.Framework), TaskId: clean(call.Task)}}
	case protocol.VolumeDone:
		m.Call = &apiv1.AgentCall_VolumeDone{VolumeDone: &apiv1.VolumeDone{
			Generation: call.Generation,
			Volume:     clean(call.Volume), Error: cut(clean(call.Err), api.StatusMessageBytesMax)}}
	case protocol.NeedSecrets:
		m.Call = &apiv1.AgentCall_NeedSecrets{NeedSecrets: &apiv1.NeedSecrets{
			FrameworkId: clean(call.Framework), TaskId: clean(call.Task)}}
	}
	return m
}

func (c *checker) agentCall(m *apiv1.AgentCall) protocol.AgentCall {
	switch call := m.GetCall().(type) {
	case *apiv1.AgentCall_Register:
		return c.register(call.Register)
	case *apiv1.AgentCall_Reregister:
		return c.reregister(call.Reregister)
	case *apiv1.AgentCall_Report:
		return c.report(call.Report)
	case *apiv1.AgentCall_Heartbeat:
		return protocol.AgentHeartbeat{Usage: c.usageReport(call.Heartbeat.GetUsage()),
			Unable: cut(call.Heartbeat.GetUnable(), api.TextBytesMax)}
	case *apiv1.AgentCall_Status:
		return protocol.StatusUpdate{Status: c.status(call.Status)}
	case *apiv1.AgentCall_ExecutorEnded:
		ended := call.ExecutorEnded
		return protocol.ExecutorEnded{ExecutorRef: c.executorRef(ended.GetFrameworkId(), ended.GetExecutorId()),
			Message: cut(ended.GetMessage(), api.StatusMessageBytesMax), Again: ended.GetAgain(), NextLaunch: ended.GetNextLaunch()}
	case *apiv1.AgentCall_Message:
		message := call.Message
		return protocol.MessageFromExecutor{ExecutorRef: c.executorRef(message.GetFrameworkId(), message.GetExecutorId()),
			Data: message.GetData()}
	case *apiv1.AgentCall_KillTaken:
		return protocol.KillTaken{TaskRef: c.taskRef(call.KillTaken.GetFrameworkId(), call.KillTaken.GetTaskId())}
	case *apiv1.AgentCall_VolumeDone:
		done := call.VolumeDone
		return protocol.VolumeDone{Volume: api.VolumeID(c.id("volume ID", done.GetVolume())), Generation: done.GetGeneration(),
			Err: cut(done.GetError(), api.StatusMessageBytesMax)}
	case *apiv1.AgentCall_NeedSecrets:
		return protocol.NeedSecrets{TaskRef: c.taskRef(call.NeedSecrets.GetFrameworkId(), call.NeedSecrets.GetTaskId())}
	}
	c.failKind(api.Unsupported, "a call of a kind that is unknown here; is the master older than the agent?")
	return nil
}

func (c *checker) register(m *apiv1.RegisterAgent) protocol.RegisterAgent {
	return protocol.RegisterAgent{
		Cluster: api.ClusterID(c.optionalID("cluster ID", m.GetClusterId())),
		Version: c.text("version", m.GetVersion()),
		Agent:   c.keptAgent(m.GetAgent()),
		Nonce:   api.Nonce(c.id("nonce", m.GetNonce())),
		BootID:  c.text("boot ID", m.GetBootId()),
	}
}

func (c *checker) reregister(m *apiv1.ReregisterAgent) protocol.ReregisterAgent {
	if m.GetAgent().GetId() == "" {
		c.fail("reregistering needs the agent's ID; one without registers")
	}
	return protocol.ReregisterAgent{
		Cluster: api.ClusterID(c.id("cluster ID", m.GetClusterId())),
		Term:    TermFromProto(m.GetTerm()),
		Version: c.text("version", m.GetVersion()),
		Agent:   c.keptAgent(m.GetAgent()),
		Nonce:   api.Nonce(c.optionalID("nonce", m.GetNonce())),
		BootID:  c.text("boot ID", m.GetBootId()),
	}
}
