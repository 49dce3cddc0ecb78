package wire

import (
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
)

// AgentEventsToProto makes one message of all events, whatever its size. AgentEventBatches keeps below the limit.
func AgentEventsToProto(batch protocol.AgentEvents) *apiv1.AgentEvents {
	return &apiv1.AgentEvents{Term: TermToProto(batch.Term), Session: batch.Session, Events: Each(batch.Events, agentEventToProto)}
}

// AgentEventsFromProto reads a batch. Events that this version does not know are left out. An error means that no
// master can have sent the message.
func AgentEventsFromProto(m *apiv1.AgentEvents) (protocol.AgentEvents, error) {
	batch := protocol.AgentEvents{Term: TermFromProto(m.GetTerm()), Session: m.GetSession()}
	if err := checkTerm("wire.agent", batch.Term); err != nil {
		return batch, err
	}
	batch.Events = eachKnown(m.GetEvents(), agentEventFromProto)
	return batch, nil
}

func agentEventToProto(event protocol.AgentEvent) *apiv1.AgentEvent {
	m := new(apiv1.AgentEvent)
	switch event := event.(type) {
	case protocol.AgentRegistered:
		m.Event = &apiv1.AgentEvent_Registered{Registered: &apiv1.AgentRegistered{
			ClusterId: clean(event.Cluster), AgentId: clean(event.Agent),
			HeartbeatInterval: DurationToProto(event.HeartbeatInterval),
			SessionTimeout:    DurationToProto(event.SessionTimeout), Masters: Texts(event.Masters)}}
	case protocol.Reported:
		m.Event = &apiv1.AgentEvent_Reported{Reported: &apiv1.Reported{}}
	case protocol.LaunchTask:
		m.Event = &apiv1.AgentEvent_Launch{Launch: LaunchToProto(event)}
	case protocol.LaunchGroup:
		m.Event = &apiv1.AgentEvent_LaunchGroup{LaunchGroup: groupToProto(event)}
	case protocol.KillTask:
		m.Event = &apiv1.AgentEvent_Kill{Kill: &apiv1.KillTask{
			FrameworkId: clean(event.Framework), TaskId: clean(event.Task), Grace: DurationToProto(event.Grace),
			Reason: apiv1.Reason(event.Reason)}}
	case protocol.AcknowledgeStatus:
		m.Event = &apiv1.AgentEvent_Acknowledge{Acknowledge: &apiv1.AcknowledgeStatus{
			FrameworkId: clean(event.Framework), TaskId: clean(event.Task), Number: event.Number}}
	case protocol.SendAgain:
		m.Event = &apiv1.AgentEvent_SendAgain{SendAgain: &apiv1.SendAgain{FrameworkId: clean(event.Framework), TaskId: clean(event.Task)}}
	case protocol.ShutdownAgentExecutor:
		m.Event = &apiv1.AgentEvent_ShutdownExecutor{ShutdownExecutor: &apiv1.ShutdownAgentExecutor{
			FrameworkId: clean(event.Framework), ExecutorId: clean(event.Executor)}}
	case protocol.MessageToExecutor:
		m.Event = &apiv1.AgentEvent_Message{Message: &apiv1.MessageToExecutor{
			FrameworkId: clean(event.Framework), ExecutorId: clean(event.Executor), Data: event.Data}}
	case protocol.RemoveFramework:
		m.Event = &apiv1.AgentEvent_RemoveFramework{RemoveFramework: &apiv1.RemoveFramework{
			FrameworkId: clean(event.Framework)}}
	case protocol.Drain:
		m.Event = &apiv1.AgentEvent_Drain{Drain: &apiv1.Drain{On: event.On, Grace: DurationToProto(event.Grace)}}
	case protocol.AgentGone:
		m.Event = &apiv1.AgentEvent_Gone{Gone: &apiv1.AgentGone{Why: clean(event.Why)}}
	case protocol.CreateVolume:
		m.Event = &apiv1.AgentEvent_CreateVolume{CreateVolume: &apiv1.CreateVolume{Volume: VolumeToProto(event.Volume)}}
	case protocol.DestroyVolume:
		m.Event = &apiv1.AgentEvent_DestroyVolume{DestroyVolume: &apiv1.DestroyVolume{
			Volume: clean(event.Volume), Generation: event.Generation,
		}}
	case protocol.PrincipalChanged:
		m.Event = &apiv1.AgentEvent_PrincipalChanged{PrincipalChanged: &apiv1.PrincipalChanged{
			Principal: clean(event.Principal), Until: TimeToProto(event.Until), Revoked: event.Revoked, Views: event.Views,
		}}
	case protocol.TaskSecrets:
		m.Event = &apiv1.AgentEvent_TaskSecrets{TaskSecrets: taskSecretsToProto(event)}
	case protocol.AgentPong:
		m.Event = &apiv1.AgentEvent_Pong{Pong: &apiv1.AgentPong{
			Masters: Texts(event.Masters), ReturnWithin: DurationToProto(event.ReturnWithin),
			HeartbeatInterval: DurationToProto(event.HeartbeatInterval), SessionTimeout: DurationToProto(event.SessionTimeout),
		}}
	}
	return m
}

// agentEventFromProto returns nil for an event that this version does not know.
func agentEventFromProto(m *apiv1.AgentEvent) protocol.AgentEvent {
	c := trusting()
	switch event := m.GetEvent().(type) {
	case *apiv1.AgentEvent_Registered:
		one := event.Registered
		return protocol.AgentRegistered{Cluster: api.ClusterID(one.GetClusterId()), Agent: api.AgentID(one.GetAgentId()),
			HeartbeatInterval: c.duration("", one.GetHeartbeatInterval()),
			SessionTimeout:    c.duration("", one.GetSessionTimeout()), Masters: one.GetMasters()}
	case *apiv1.AgentEvent_Reported:
		return protocol.Reported{}
	case *apiv1.AgentEvent_Launch:
		return LaunchFromProto(event.Launch)
	case *apiv1.AgentEvent_LaunchGroup:
		return groupFromProto(event.LaunchGroup)
	case *apiv1.AgentEvent_Kill:
		one := event.Kill
		return protocol.KillTask{TaskRef: c.taskRef(one.GetFrameworkId(), one.GetTaskId()),
			Grace: c.duration("", one.GetGrace()), Reason: c.reason(one.GetReason())}
	case *apiv1.AgentEvent_Acknowledge:
		one := event.Acknowledge
		return protocol.AcknowledgeStatus{TaskRef: c.taskRef(one.GetFrameworkId(), one.GetTaskId()), Number: one.GetNumber()}
	case *apiv1.AgentEvent_SendAgain:
		return protocol.SendAgain{TaskRef: c.taskRef(event.SendAgain.GetFrameworkId(), event.SendAgain.GetTaskId())}
	case *apiv1.AgentEvent_ShutdownExecutor:
		one := event.ShutdownExecutor
		return protocol.ShutdownAgentExecutor{ExecutorRef: c.executorRef(one.GetFrameworkId(), one.GetExecutorId())}
	case *apiv1.AgentEvent_Message:
		one := event.Message
		return protocol.MessageToExecutor{ExecutorRef: c.executorRef(one.GetFrameworkId(), one.GetExecutorId()), Data: one.GetData()}
	case *apiv1.AgentEvent_RemoveFramework:
		return protocol.RemoveFramework{Framework: api.FrameworkID(event.RemoveFramework.GetFrameworkId())}
	case *apiv1.AgentEvent_Drain:
		return protocol.Drain{On: event.Drain.GetOn(), Grace: c.duration("", event.Drain.GetGrace())}
	case *apiv1.AgentEvent_Gone:
		return protocol.AgentGone{Why: event.Gone.GetWhy()}
	case *apiv1.AgentEvent_CreateVolume:
		return protocol.CreateVolume{Volume: VolumeOf(event.CreateVolume.GetVolume())}
	case *apiv1.AgentEvent_DestroyVolume:
		return protocol.DestroyVolume{
			Volume: api.VolumeID(event.DestroyVolume.GetVolume()), Generation: event.DestroyVolume.GetGeneration(),
		}
	case *apiv1.AgentEvent_PrincipalChanged:
		return protocol.PrincipalChanged{
			Principal: event.PrincipalChanged.GetPrincipal(), Until: c.time("", event.PrincipalChanged.GetUntil()), Revoked: event.PrincipalChanged.GetRevoked(),
			Views: event.PrincipalChanged.GetViews(),
		}
	case *apiv1.AgentEvent_TaskSecrets:
		return taskSecretsFromProto(event.TaskSecrets)
	case *apiv1.AgentEvent_Pong:
		one := event.Pong
		return protocol.AgentPong{
			Masters: one.GetMasters(), ReturnWithin: c.duration("", one.GetReturnWithin()),
			HeartbeatInterval: c.duration("", one.GetHeartbeatInterval()), SessionTimeout: c.duration("", one.GetSessionTimeout()),
		}
	}
	return nil
}

func taskSecretsToProto(event protocol.TaskSecrets) *apiv1.TaskSecrets {
	m := &apiv1.TaskSecrets{FrameworkId: clean(event.Framework), TaskId: clean(event.Task), Why: cut(clean(event.Why), api.StatusMessageBytesMax)}
	for _, one := range event.Values {
		m.Values = append(m.Values, &apiv1.SecretValue{Name: clean(one.ID), Value: one.Value})
	}
	return m
}

func taskSecretsFromProto(m *apiv1.TaskSecrets) protocol.TaskSecrets {
	event := protocol.TaskSecrets{TaskRef: trusting().taskRef(m.GetFrameworkId(), m.GetTaskId()), Why: m.GetWhy()}
	for _, one := range m.GetValues() {
		event.Values = append(event.Values, protocol.SecretValue{ID: api.SecretID(one.GetName()), Value: one.GetValue()})
	}
	return event
}

// LaunchToProto makes the message of a launch.
func LaunchToProto(launch protocol.LaunchTask) *apiv1.LaunchTask {
	return &apiv1.LaunchTask{
		Task:              TaskToProto(launch.Task),
		FrameworkId:       clean(launch.Framework.ID),
		Role:              clean(launch.Role),
		Resources:         ResourcesToProto(launch.Resources),
		ExecutorResources: ResourcesToProto(launch.ExecutorResources),
		Number:            launch.Number,
		Framework:         FrameworkToProto(launch.Framework),
		Receipt:           []byte(launch.Receipt),
		ExecutorReceipt:   []byte(launch.ExecutorReceipt),
	}
}

// LaunchFromProto reads a launch as a master sends it.
func LaunchFromProto(m *apiv1.LaunchTask) protocol.LaunchTask {
	c := trusting()
	launch := protocol.LaunchTask{
		Task:              TaskFromProto(m.GetTask()),
		Role:              api.Role(m.GetRole()),
		Resources:         c.resources("", m.GetResources()),
		ExecutorResources: c.resources("", m.GetExecutorResources()),
		Number:            m.GetNumber(),
		Framework:         c.framework(m.GetFramework()),
		Receipt:           string(m.GetReceipt()),
		ExecutorReceipt:   string(m.GetExecutorReceipt()),
	}
	if launch.Framework.ID == "" {
		launch.Framework.ID = api.FrameworkID(m.GetFrameworkId())
	}
	return launch
}

// groupToProto names the framework only in the first launch, because it is the same for all launches of a group.
func groupToProto(group protocol.LaunchGroup) *apiv1.LaunchGroup {
	m := &apiv1.LaunchGroup{Tasks: make([]*apiv1.LaunchTask, len(group.Tasks))}
	for i, launch := range group.Tasks {
		if i > 0 {
			launch.Framework = api.Framework{ID: launch.Framework.ID}
		}
		m.Tasks[i] = LaunchToProto(launch)
	}
	return m
}

func groupFromProto(m *apiv1.LaunchGroup) protocol.LaunchGroup {
	group := protocol.LaunchGroup{Tasks: make([]protocol.LaunchTask, len(m.GetTasks()))}
	for i, launch := range m.GetTasks() {
		group.Tasks[i] = LaunchFromProto(launch)
		group.Tasks[i].Framework = group.Tasks[0].Framework
	}
	return group
}
