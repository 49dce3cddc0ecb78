package wire

import (
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
)

// SchedulerEventsToProto makes one message of all events, whatever its size. SchedulerEventBatches keeps below the
// limit.
func SchedulerEventsToProto(term api.Term, events []protocol.SchedulerEvent) *apiv1.SchedulerEvents {
	return &apiv1.SchedulerEvents{Term: TermToProto(term), Events: Each(events, schedulerEventToProto)}
}

// SchedulerEventsFromProto reads a batch. Events that this version does not know are left out. An error means that no
// master can have sent the message.
func SchedulerEventsFromProto(m *apiv1.SchedulerEvents) (api.Term, []protocol.SchedulerEvent, error) {
	term := TermFromProto(m.GetTerm())
	if err := checkTerm("wire.scheduler", term); err != nil {
		return term, nil, err
	}
	return term, eachKnown(m.GetEvents(), schedulerEventFromProto), nil
}

func schedulerEventToProto(event protocol.SchedulerEvent) *apiv1.SchedulerEvent {
	m := new(apiv1.SchedulerEvent)
	switch event := event.(type) {
	case protocol.Subscribed:
		m.Event = &apiv1.SchedulerEvent_Subscribed{Subscribed: subscribedToProto(event)}
	case protocol.Waiting:
		m.Event = &apiv1.SchedulerEvent_Waiting{Waiting: &apiv1.Waiting{ActiveInstance: clean(event.ActiveInstance)}}
	case protocol.Offers:
		m.Event = &apiv1.SchedulerEvent_Offers{Offers: &apiv1.Offers{Offers: Each(event.Offers, OfferToProto)}}
	case protocol.Rescind:
		m.Event = &apiv1.SchedulerEvent_Rescind{Rescind: &apiv1.Rescind{
			OfferIds: Texts(event.Offers), Why: clean(event.Why)}}
	case protocol.Update:
		m.Event = &apiv1.SchedulerEvent_Update{Update: StatusToProto(event.Status)}
	case protocol.Refused:
		m.Event = &apiv1.SchedulerEvent_Refused{Refused: &apiv1.Refused{
			Number: event.Number, Error: ErrorToProto(event.Err)}}
	case protocol.FrameworkUpdated:
		m.Event = &apiv1.SchedulerEvent_Updated{Updated: &apiv1.FrameworkUpdated{Number: event.Number}}
	case protocol.OperationResult:
		m.Event = &apiv1.SchedulerEvent_Operation{Operation: &apiv1.OperationResult{
			Id: clean(event.ID), AgentId: clean(event.Agent), Error: ErrorToProto(event.Err)}}
	case protocol.InverseOffers:
		m.Event = &apiv1.SchedulerEvent_InverseOffers{InverseOffers: &apiv1.InverseOffers{Offers: Each(event.Offers, InverseOfferToProto)}}
	case protocol.RescindInverse:
		m.Event = &apiv1.SchedulerEvent_RescindInverse{RescindInverse: &apiv1.Rescind{
			OfferIds: Texts(event.Offers), Why: clean(event.Why)}}
	case protocol.MessageFramework:
		m.Event = &apiv1.SchedulerEvent_Message{Message: &apiv1.MessageFramework{
			AgentId: clean(event.Agent), ExecutorId: clean(event.Executor), Data: event.Data}}
	case protocol.ExecutorLost:
		m.Event = &apiv1.SchedulerEvent_ExecutorLost{ExecutorLost: &apiv1.ExecutorLost{
			AgentId: clean(event.Agent), ExecutorId: clean(event.Executor), Message: clean(event.Message)}}
	case protocol.AgentLost:
		m.Event = &apiv1.SchedulerEvent_AgentLost{AgentLost: &apiv1.AgentLost{
			AgentId: clean(event.Agent), Gone: event.Gone, Why: clean(event.Why)}}
	case protocol.MasterHeartbeat:
		m.Event = &apiv1.SchedulerEvent_Heartbeat{Heartbeat: &apiv1.MasterHeartbeat{Masters: Texts(event.Masters)}}
	case protocol.Settled:
		m.Event = &apiv1.SchedulerEvent_Settled{Settled: &apiv1.Settled{}}
	}
	return m
}

// schedulerEventFromProto returns nil for an event that this version does not know.
func schedulerEventFromProto(m *apiv1.SchedulerEvent) protocol.SchedulerEvent {
	switch event := m.GetEvent().(type) {
	case *apiv1.SchedulerEvent_Subscribed:
		return subscribedFromProto(event.Subscribed)
	case *apiv1.SchedulerEvent_Waiting:
		return protocol.Waiting{ActiveInstance: api.Nonce(event.Waiting.GetActiveInstance())}
	case *apiv1.SchedulerEvent_Offers:
		return protocol.Offers{Offers: Each(event.Offers.GetOffers(), OfferFromProto)}
	case *apiv1.SchedulerEvent_Rescind:
		return protocol.Rescind{Offers: Names[api.OfferID](event.Rescind.GetOfferIds()), Why: event.Rescind.GetWhy()}
	case *apiv1.SchedulerEvent_Update:
		return protocol.Update{Status: trusting().status(event.Update)}
	case *apiv1.SchedulerEvent_Refused:
		return protocol.Refused{Number: event.Refused.GetNumber(), Err: ErrorFromProto(event.Refused.GetError())}
	case *apiv1.SchedulerEvent_Updated:
		return protocol.FrameworkUpdated{Number: event.Updated.GetNumber()}
	case *apiv1.SchedulerEvent_Operation:
		result := event.Operation
		return protocol.OperationResult{ID: api.OperationID(result.GetId()), Agent: api.AgentID(result.GetAgentId()),
			Err: ErrorFromProto(result.GetError())}
	case *apiv1.SchedulerEvent_InverseOffers:
		return protocol.InverseOffers{Offers: Each(event.InverseOffers.GetOffers(), InverseOfferFromProto)}
	case *apiv1.SchedulerEvent_RescindInverse:
		rescind := event.RescindInverse
		return protocol.RescindInverse{Offers: Names[api.OfferID](rescind.GetOfferIds()), Why: rescind.GetWhy()}
	case *apiv1.SchedulerEvent_Message:
		return protocol.MessageFramework{Agent: api.AgentID(event.Message.GetAgentId()),
			Executor: api.ExecutorID(event.Message.GetExecutorId()), Data: event.Message.GetData()}
	case *apiv1.SchedulerEvent_ExecutorLost:
		lost := event.ExecutorLost
		return protocol.ExecutorLost{Agent: api.AgentID(lost.GetAgentId()),
			Executor: api.ExecutorID(lost.GetExecutorId()), Message: lost.GetMessage()}
	case *apiv1.SchedulerEvent_AgentLost:
		lost := event.AgentLost
		return protocol.AgentLost{Agent: api.AgentID(lost.GetAgentId()), Gone: lost.GetGone(), Why: lost.GetWhy()}
	case *apiv1.SchedulerEvent_Heartbeat:
		return protocol.MasterHeartbeat{Masters: event.Heartbeat.GetMasters()}
	case *apiv1.SchedulerEvent_Settled:
		return protocol.Settled{}
	}
	return nil
}

func subscribedToProto(event protocol.Subscribed) *apiv1.Subscribed {
	return &apiv1.Subscribed{
		ClusterId:         clean(event.Cluster),
		FrameworkId:       clean(event.Framework),
		Session:           event.Session,
		Turn:              event.Turn,
		HeartbeatInterval: DurationToProto(event.HeartbeatInterval),
		SessionTimeout:    DurationToProto(event.SessionTimeout),
		MasterId:          clean(event.Master),
		Masters:           Texts(event.Masters),
	}
}

func subscribedFromProto(m *apiv1.Subscribed) protocol.Subscribed {
	c := trusting()
	return protocol.Subscribed{
		Cluster:           api.ClusterID(m.GetClusterId()),
		Framework:         api.FrameworkID(m.GetFrameworkId()),
		Session:           m.GetSession(),
		Turn:              m.GetTurn(),
		HeartbeatInterval: c.duration("", m.GetHeartbeatInterval()),
		SessionTimeout:    c.duration("", m.GetSessionTimeout()),
		Master:            api.MasterID(m.GetMasterId()),
		Masters:           m.GetMasters(),
	}
}
