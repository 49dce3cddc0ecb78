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
		Executors:   cleanAll(offer.Executors),
		Timeout:     durationToProto(offer.Timeout),
		Unavailable: windowToProto(offer.Unavailable),
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
		Executors:   names[api.ExecutorID](m.GetExecutors()),
		Timeout:     c.duration("", m.GetTimeout()),
		Unavailable: c.window(m.GetUnavailable()),
	}
}

// InverseOfferToProto makes the message of an inverse offer; its framework is the
// session's.
func InverseOfferToProto(offer api.InverseOffer) *apiv1.InverseOffer {
	return &apiv1.InverseOffer{
		Id:        clean(offer.ID),
		AgentId:   clean(offer.Agent),
		Resources: ResourcesToProto(offer.Resources),
		TaskIds:   cleanAll(offer.Tasks),
		Deadline:  timeToProto(offer.Deadline),
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
		Tasks:     names[api.TaskID](m.GetTaskIds()),
		Deadline:  c.time("", m.GetDeadline()),
		Reason:    c.reason(m.GetReason()),
	}
}

func windowToProto(window *api.Window) *apiv1.Window {
	if window == nil {
		return nil
	}
	return &apiv1.Window{Start: timeToProto(window.Start), Duration: durationToProto(window.Duration)}
}

func (c *checker) window(m *apiv1.Window) *api.Window {
	if m == nil {
		return nil
	}
	return &api.Window{Start: c.time("", m.Start), Duration: c.duration("", m.Duration)}
}

// names turns strings into identifiers without judging them.
func names[S ~string](texts []string) []S {
	return typed[S](texts, func(text string) string { return text })
}
