package wire

import (
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// FrameworkToProto makes the message of a framework.
func FrameworkToProto(framework api.Framework) *apiv1.Framework {
	return &apiv1.Framework{
		Id:              clean(framework.ID),
		Name:            clean(framework.Name),
		Principal:       clean(framework.Principal),
		Roles:           Texts(framework.Roles),
		FailoverTimeout: DurationToProto(framework.FailoverTimeout),
		Standby:         framework.Standby,
		Constraint:      clean(framework.Constraint),
		MinOffer:        ResourcesToProto(framework.MinOffer),
		MaxOffer:        ResourcesToProto(framework.MaxOffer),
		Revocable:       framework.Revocable,
		Labels:          cleanMap(framework.Labels),
		Endpoints:       cleanMap(framework.Endpoints),
	}
}

// FrameworkView makes the part of a framework's view that the framework itself determines.
func FrameworkView(framework api.Framework) *apiv1.FrameworkView {
	return &apiv1.FrameworkView{
		Id:              clean(framework.ID),
		Name:            clean(framework.Name),
		Principal:       clean(framework.Principal),
		Roles:           Texts(framework.Roles),
		FailoverTimeout: durationpb.New(framework.FailoverTimeout),
		Standby:         framework.Standby,
		Constraint:      clean(framework.Constraint),
		MinOffer:        ResourcesStruct(framework.MinOffer),
		MaxOffer:        ResourcesStruct(framework.MaxOffer),
		Revocable:       framework.Revocable,
		Labels:          cleanMap(framework.Labels),
		Endpoints:       cleanMap(framework.Endpoints),
	}
}

// FrameworkOf reads a framework without checking it. It is for what Tender itself has written or sent.
func FrameworkOf(m *apiv1.Framework) api.Framework { return trusting().framework(m) }

func (c *checker) framework(m *apiv1.Framework) api.Framework {
	if m == nil {
		c.fail("no framework is described")
		return api.Framework{}
	}
	if m.Standby && m.Name == "" {
		c.fail("a framework with standby needs a name; it is its identity")
	}
	framework := api.Framework{
		ID:              api.FrameworkID(c.optionalID("framework ID", m.Id)),
		Name:            c.text("name", m.Name),
		Principal:       c.text("principal", m.Principal),
		Roles:           c.roles(m.Roles),
		FailoverTimeout: c.duration("failover timeout", m.FailoverTimeout),
		Standby:         m.Standby,
		Constraint:      m.Constraint,
		MinOffer:        c.resources("min offer", m.MinOffer),
		MaxOffer:        c.resources("max offer", m.MaxOffer),
		Revocable:       m.Revocable,
		Labels:          c.words("labels", m.Labels),
		Endpoints:       c.words("endpoints", m.Endpoints),
	}
	for i, role := range framework.Roles {
		if slices.Contains(framework.Roles[:i], role) {
			c.fail("role %q is named twice", role)
		}
	}
	return framework
}

// keptFramework reads a framework that masters are going to store, and checks its size.
func (c *checker) keptFramework(m *apiv1.Framework) api.Framework {
	framework := c.framework(m)
	c.size(framework.CheckSize())
	return framework
}
