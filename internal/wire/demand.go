package wire

import (
	"math"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// ShapeToProto makes the message of a shape.
func ShapeToProto(shape api.Shape) *apiv1.Shape {
	return &apiv1.Shape{
		Resources:     ResourcesToProto(shape.Resources),
		Count:         shape.Count,
		Constraint:    clean(shape.Constraint),
		Preferred:     Texts(shape.Preferred),
		OnlyPreferred: shape.OnlyPreferred,
		Spread:        SpreadToProto(shape.Spread),
		Group:         clean(shape.Group),
	}
}

// SpreadToProto makes the messages of places.
func SpreadToProto(spread []api.Spread) (all []*apiv1.Spread) {
	for _, one := range spread {
		all = append(all, &apiv1.Spread{By: clean(one.By), Most: one.Most})
	}
	return all
}

func (c *checker) spread(all []*apiv1.Spread) (spread []api.Spread) {
	c.count("kinds of places of a shape", len(all), api.SpreadsMax)
	for _, m := range all {
		one := api.Spread{By: api.Place(m.GetBy()), Most: m.GetMost()}
		if err := one.Check(); err != nil {
			c.fail("spread of a shape: %v", err)
		}
		spread = append(spread, one)
	}
	return spread
}

// ShapeFromProto reads a shape and checks it.
func ShapeFromProto(m *apiv1.Shape) (api.Shape, error) {
	c := new(checker)
	shape := c.shape(m)
	return shape, c.error("wire.shape", "")
}

func (c *checker) shape(m *apiv1.Shape) api.Shape {
	if m.GetCount() < 1 || m.GetCount() > math.MaxInt32 {
		c.fail("count of a shape is %d; it must be from 1 to %d", m.GetCount(), math.MaxInt32)
	}
	c.count("preferred agents of a shape", len(m.GetPreferred()), api.PageItemsMax)
	return api.Shape{
		Resources:     c.resources("resources of a shape", m.GetResources()),
		Count:         m.GetCount(),
		Constraint:    m.GetConstraint(),
		Preferred:     typed[api.AgentID](m.GetPreferred(), c.ids("preferred agent's ID")),
		OnlyPreferred: m.GetOnlyPreferred(),
		Spread:        c.spread(m.GetSpread()),
		Group:         m.GetGroup(),
	}
}

// DemandToProto makes the message of a demand.
func DemandToProto(demand api.Demand) *apiv1.SetDemand {
	return &apiv1.SetDemand{Role: clean(demand.Role), Shapes: Each(demand.Shapes, ShapeToProto)}
}

func (c *checker) demand(m *apiv1.SetDemand) api.Demand {
	c.count("shapes of a demand", len(m.GetShapes()), api.DemandsPerRoleMax)
	demand := api.Demand{Role: c.optionalRole(m.GetRole())}
	text := 0
	for _, shape := range m.GetShapes() {
		text += len(shape.GetConstraint())
	}
	if text > api.ConstraintBytesPerDemandMax {
		c.failKind(api.Limit, "the constraints of a demand have %d bytes together, at most %d are allowed", text, api.ConstraintBytesPerDemandMax)
		return demand
	}
	demand.Shapes = Each(m.GetShapes(), c.shape)
	return demand
}
