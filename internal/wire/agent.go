package wire

import (
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// AgentToProto makes the message of an agent.
func AgentToProto(agent api.Agent) *apiv1.Agent {
	return &apiv1.Agent{
		Id:         clean(agent.ID),
		Hostname:   clean(agent.Hostname),
		Resources:  ResourcesToProto(agent.Resources),
		Attributes: cleanMap(agent.Attributes),
		Region:     clean(agent.Region),
		Zone:       clean(agent.Zone),
		Address:    clean(agent.Address),
		Version:    clean(agent.Version),
	}
}

// AgentOf reads an agent without checking it. It is for what Tender itself has written.
func AgentOf(m *apiv1.Agent) api.Agent { return trusting().agent(m) }

func (c *checker) agent(m *apiv1.Agent) api.Agent {
	if m == nil {
		c.fail("no agent is described")
		return api.Agent{}
	}
	return api.Agent{
		ID:         api.AgentID(c.optionalID("agent ID", m.Id)),
		Hostname:   c.text("hostname", m.Hostname),
		Resources:  c.resources("resources", m.Resources),
		Attributes: c.words("attributes", m.Attributes),
		Region:     c.text("region", m.Region),
		Zone:       c.text("zone", m.Zone),
		Address:    c.text("address", m.Address),
		Version:    c.text("version", m.Version),
	}
}

// keptAgent reads an agent that masters are going to store, and checks its size.
func (c *checker) keptAgent(m *apiv1.Agent) api.Agent {
	agent := c.agent(m)
	c.size(agent.CheckSize())
	return agent
}
