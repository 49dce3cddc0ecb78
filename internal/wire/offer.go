package wire

import (
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// OfferToProto makes the message of an offer.
func OfferToProto(offer api.Offer) *apiv1.Offer {
	return &apiv1.Offer{
		Id:          clean(offer.ID),
		FrameworkId: clean(offer.Framework),
		AgentId:     clean(offer.Agent),
		Role:        clean(offer.Role),
		Resources:   ResourcesToProto(offer.Resources),
		Hostname:    clean(offer.Hostname),
		Attributes:  cleanMap(offer.Attributes),
		Region:      clean(offer.Region),
		Zone:        clean(offer.Zone),
		Executors:   Texts(offer.Executors),
		Timeout:     DurationToProto(offer.Timeout),
		Unavailable: unavailableToProto(offer.Unavailable),
	}
}

// OfferFromProto reads an offer as a master sends it.
func OfferFromProto(m *apiv1.Offer) api.Offer {
	c := trusting()
	return api.Offer{
		ID:          api.OfferID(m.GetId()),
		Framework:   api.FrameworkID(m.GetFrameworkId()),
		Agent:       api.AgentID(m.GetAgentId()),
		Role:        api.Role(m.GetRole()),
		Resources:   c.resources("", m.GetResources()),
		Hostname:    m.GetHostname(),
		Attributes:  m.GetAttributes(),
		Region:      m.GetRegion(),
		Zone:        m.GetZone(),
		Executors:   Names[api.ExecutorID](m.GetExecutors()),
		Timeout:     c.duration("", m.GetTimeout()),
		Unavailable: unavailableFromProto(m.GetUnavailable()),
	}
}

// InverseOfferToProto makes the message of an inverse offer. Its framework is that of the session.
func InverseOfferToProto(offer api.InverseOffer) *apiv1.InverseOffer {
	return &apiv1.InverseOffer{
		Id:        clean(offer.ID),
		AgentId:   clean(offer.Agent),
		Resources: ResourcesToProto(offer.Resources),
		TaskIds:   Texts(offer.Tasks),
		Deadline:  TimeToProto(offer.Deadline),
		Reason:    apiv1.Reason(offer.Reason),
	}
}

// InverseOfferFromProto reads an inverse offer as a master sends it.
func InverseOfferFromProto(m *apiv1.InverseOffer) api.InverseOffer {
	c := trusting()
	return api.InverseOffer{
		ID:        api.OfferID(m.GetId()),
		Agent:     api.AgentID(m.GetAgentId()),
		Resources: c.resources("", m.GetResources()),
		Tasks:     Names[api.TaskID](m.GetTaskIds()),
		Deadline:  c.time("", m.GetDeadline()),
		Reason:    c.reason(m.GetReason()),
	}
}

func unavailableToProto(window *api.Window) *apiv1.Window {
	if window == nil {
		return nil
	}
	return &apiv1.Window{Start: TimeToProto(window.Start), Duration: DurationToProto(window.Duration)}
}

func unavailableFromProto(m *apiv1.Window) *api.Window {
	if m == nil {
		return nil
	}
	window := WindowOf(m)
	return &window
}
