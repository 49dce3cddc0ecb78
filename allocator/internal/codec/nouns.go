package codec

import (
	"errors"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/inputs"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
)

func agentToProto(a allocator.Agent) *apiv1.AllocatorAgent {
	return &apiv1.AllocatorAgent{
		Id: string(a.ID), Hostname: a.Hostname, Total: wire.ResourcesToProto(a.Total), Attributes: a.Attributes,
		Region: a.Region, Zone: a.Zone, Offerable: a.Offerable, Why: a.Why,
	}
}

func agentFromProto(m *apiv1.AllocatorAgent) (inputs.Input, error) {
	total, err := wire.ResourcesFromProto(m.GetTotal())
	return inputs.SetAgent{Agent: allocator.Agent{
		ID: api.AgentID(m.GetId()), Hostname: m.GetHostname(), Total: total, Attributes: m.GetAttributes(),
		Region: m.GetRegion(), Zone: m.GetZone(), Offerable: m.GetOfferable(), Why: m.GetWhy(),
	}}, err
}

func frameworkToProto(f allocator.Framework) *apiv1.AllocatorFramework {
	return &apiv1.AllocatorFramework{
		Id: string(f.ID), Name: f.Name, Roles: wire.Texts(f.Roles), Active: f.Active, Constraint: f.Constraint,
		MinOffer: wire.ResourcesToProto(f.MinOffer), MaxOffer: wire.ResourcesToProto(f.MaxOffer), Revocable: f.Revocable,
		Framework: wire.FrameworkToProto(f.Framework), Withheld: f.Withheld,
	}
}

func frameworkFromProto(m *apiv1.AllocatorFramework) (inputs.Input, error) {
	least, err := wire.ResourcesFromProto(m.GetMinOffer())
	most, err2 := wire.ResourcesFromProto(m.GetMaxOffer())
	f := allocator.Framework{Framework: wire.FrameworkOf(m.GetFramework()), Active: m.GetActive(), Withheld: m.GetWithheld()}
	f.ID, f.Name, f.Roles, f.Constraint = api.FrameworkID(m.GetId()), m.GetName(), wire.Names[api.Role](m.GetRoles()), m.GetConstraint()
	f.MinOffer, f.MaxOffer, f.Revocable = least, most, m.GetRevocable()
	return inputs.SetFramework{Framework: f}, errors.Join(err, err2)
}

func rolesToProto(id api.FrameworkID, named []api.Role) *apiv1.AllocatorRoles {
	return &apiv1.AllocatorRoles{FrameworkId: string(id), Roles: wire.Texts(named)}
}

func demandToProto(d inputs.SetDemand) *apiv1.AllocatorDemand {
	return &apiv1.AllocatorDemand{
		FrameworkId: string(d.Framework), Role: string(d.Role), Stated: d.Shapes != nil, Shapes: wire.Each(d.Shapes, wire.ShapeToProto),
	}
}

func demandFromProto(m *apiv1.AllocatorDemand) (inputs.Input, error) {
	d := inputs.SetDemand{Framework: api.FrameworkID(m.GetFrameworkId()), Role: api.Role(m.GetRole())}
	if !m.GetStated() {
		return d, nil
	}
	d.Shapes = []api.Shape{}
	for _, one := range m.GetShapes() {
		shape, err := wire.ShapeFromProto(one)
		if err != nil {
			return d, err
		}
		d.Shapes = append(d.Shapes, shape)
	}
	return d, nil
}

func roleToProto(r allocator.Role) *apiv1.AllocatorRole {
	return &apiv1.AllocatorRole{
		Role: string(r.Role), Weight: r.Weight, Priority: int64(r.Priority),
		Guarantee: wire.ResourcesToProto(r.Guarantee), Limit: wire.ResourcesToProto(r.Limit),
	}
}

// roleFromProto reads a role's quotas without checking them: they are sums over agents, and may be larger than what one
// agent may have.
func roleFromProto(m *apiv1.AllocatorRole) (inputs.Input, error) {
	return inputs.SetRole{Role: allocator.Role{
		Role: api.Role(m.GetRole()), Weight: m.GetWeight(), Priority: int(m.GetPriority()),
		Guarantee: wire.ResourcesOf(m.GetGuarantee()), Limit: wire.ResourcesOf(m.GetLimit()),
	}}, nil
}
