package master

import (
	"google.golang.org/protobuf/types/known/durationpb"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/core"
)

// What people see of each noun.

func showAgent(v core.AgentView) *apiv1.AgentView {
	leaving := make(map[string]string, len(v.Leaving))
	for id, answer := range v.Leaving {
		leaving[string(id)] = answer
	}
	view := &apiv1.AgentView{
		Id: string(v.Agent.ID), Hostname: v.Agent.Hostname, State: v.State.String(), Since: wire.TimeToProto(v.Since), Why: v.Why,
		Marks: v.Marks.Strings(), Total: wire.ResourcesStruct(v.Agent.Resources), Allocated: wire.ResourcesStruct(v.Allocated),
		Offered: wire.ResourcesStruct(v.Offered), Free: wire.ResourcesStruct(v.Free), Attributes: v.Agent.Attributes,
		Region: v.Agent.Region, Zone: v.Agent.Zone, Address: v.Agent.Address, Version: v.Agent.Version, Tasks: int32(v.Tasks),
		Usage: wire.UsageToProto(v.Usage.Total), Admitted: wire.TimeToProto(v.Admitted),
		Maintenance: wire.WindowToProto(v.Maintenance), Leaving: leaving,
		Revocable: wire.ResourcesStruct(v.Revocable), TasksMaybeMore: v.MaybeMore, Occupied: wire.ResourcesStruct(v.Occupied),
	}
	for _, o := range v.Orphans {
		view.Orphaned = append(view.Orphaned, &apiv1.OrphanedVolume{
			Volume: string(o.Volume.Volume), Role: string(o.Volume.Reserved), SizeMb: int64(o.Volume.Scalar) / 1000, Why: o.Why,
		})
	}
	return view
}

func showFramework(v core.FrameworkView) *apiv1.FrameworkView {
	f := v.Framework
	view := &apiv1.FrameworkView{
		Id: string(f.ID), Name: f.Name, State: v.State, Since: wire.TimeToProto(v.Since), Why: v.Why, Principal: f.Principal,
		Roles: wire.Texts(f.Roles), Suppressed: wire.Texts(v.Suppressed), Allocated: wire.ResourcesStruct(v.Allocated),
		Offered: wire.ResourcesStruct(v.Offered), DominantShare: v.DominantShare, Tasks: int32(v.Tasks), Offers: int32(v.Offers),
		FailoverTimeout: durationpb.New(f.FailoverTimeout), Standby: f.Standby, Instance: string(v.Instance), Session: v.Session,
		Constraint: f.Constraint, Labels: f.Labels, Endpoints: f.Endpoints, Admitted: wire.TimeToProto(v.Admitted),
		MinOffer: wire.ResourcesStruct(f.MinOffer), MaxOffer: wire.ResourcesStruct(f.MaxOffer), Revocable: f.Revocable,
	}
	if p := v.Placed; p.Tasks() > 0 {
		view.Locality = &apiv1.LocalityView{Node: int64(p.Node), Near: int64(p.Near), Any: int64(p.Any),
			Waited: durationpb.New(p.Waited), Longest: durationpb.New(p.Longest), Idle: durationpb.New(p.Idle)}
	}
	for _, demand := range v.Demand {
		for _, shape := range demand.Shapes {
			view.Demand = append(view.Demand, &apiv1.DemandView{
				Role: string(demand.Role), Resources: wire.ResourcesStruct(shape.Resources), Count: shape.Count, Constraint: shape.Constraint,
				Preferred: wire.Texts(shape.Preferred), OnlyPreferred: shape.OnlyPreferred, Spread: wire.SpreadToProto(shape.Spread), Group: shape.Group,
			})
		}
	}
	return view
}

func showTask(v core.TaskView) *apiv1.TaskView {
	view := &apiv1.TaskView{
		Id: string(v.Task.ID), FrameworkId: string(v.Framework), FrameworkName: v.FrameworkName, Name: v.Task.DisplayName(),
		Role: string(v.Role), State: v.Status.State.String(), Reason: v.Status.Reason.String(), Message: v.Status.Message,
		AgentId: string(v.Agent), Hostname: v.Hostname, AgentAddress: v.AgentAddress, ExecutorId: string(v.Task.ExecutorID()),
		Resources: wire.ResourcesStruct(v.Resources), Launched: wire.TimeToProto(v.Launched), Since: wire.TimeToProto(v.Status.At),
		Labels: v.Task.Labels, Usage: wire.UsageToProto(v.Usage), Command: wire.CommandToProto(v.Task.Command),
	}
	if v.Status.Executor != "" {
		view.ExecutorId = string(v.Status.Executor)
	}
	if v.Status.ExitCode != nil {
		code := int32(*v.Status.ExitCode)
		view.ExitCode = &code
	}
	if len(v.Task.Ports) > 0 {
		view.Ports = make(map[string]uint32, len(v.Task.Ports))
		for name, port := range v.Task.Ports {
			view.Ports[name] = uint32(port)
		}
	}
	return view
}

func showOffer(v core.OfferView) *apiv1.OfferView {
	o := v.Offer
	return &apiv1.OfferView{
		Id: string(o.ID), FrameworkId: string(o.Framework), FrameworkName: v.FrameworkName, AgentId: string(o.Agent),
		Hostname: o.Hostname, Role: string(o.Role), Resources: wire.ResourcesStruct(o.Resources),
		Since: wire.TimeToProto(v.Since), Expires: wire.TimeToProto(v.Expires),
	}
}

func showDecision(d core.ExplainedDecision) *apiv1.ExplainedDecision {
	return &apiv1.ExplainedDecision{
		At: wire.TimeToProto(d.At), Made: wire.TimeToProto(d.Made), OfferId: string(d.Offer), AgentId: string(d.Agent), Role: string(d.Role),
		Resources: wire.ResourcesStruct(d.Resources), Outcome: d.Outcome, Why: d.Why, Launched: int32(d.Launched),
	}
}

func showRole(v core.RoleView) *apiv1.RoleView {
	return &apiv1.RoleView{
		Role: string(v.Role), Weight: v.Weight, Priority: int32(v.Priority), Guarantee: wire.ResourcesStruct(v.Guarantee),
		Limit: wire.ResourcesStruct(v.Limit), Allocated: wire.ResourcesStruct(v.Allocated), Offered: wire.ResourcesStruct(v.Offered),
		Reserved: wire.ResourcesStruct(v.Reserved), DominantShare: v.DominantShare, Frameworks: int32(v.Frameworks),
	}
}
