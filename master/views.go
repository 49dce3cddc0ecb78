package master

import (
	"cmp"

	"google.golang.org/protobuf/types/known/durationpb"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/view"
)

// This file converts what people see of each noun to messages.

// apartShownMax bounds the tasks set apart that are named with their agent; the list of tasks has all of them.
const apartShownMax = 100

func showAgent(v view.Agent) *apiv1.AgentView {
	leaving := make(map[string]string, len(v.Leaving))
	for id, answer := range v.Leaving {
		leaving[string(id)] = answer
	}
	shown := &apiv1.AgentView{
		Id: string(v.Agent.ID), Hostname: v.Agent.Hostname, State: v.StateWord(), Since: wire.TimeToProto(v.Since), Why: v.Why,
		Marks: v.Marks.Strings(), Total: wire.ResourcesStruct(v.Agent.Resources), Allocated: wire.ResourcesStruct(v.Allocated),
		Offered: wire.ResourcesStruct(v.Offered), Free: wire.ResourcesStruct(v.Free), Attributes: v.Agent.Attributes,
		Region: v.Agent.Region, Zone: v.Agent.Zone, Address: v.Agent.Address, Version: v.Agent.Version, Tasks: int32(v.Tasks),
		Usage: wire.UsageToProto(v.Usage.Total), Admitted: wire.TimeToProto(v.Admitted),
		Maintenance: wire.WindowToProto(v.Maintenance), Leaving: leaving,
		Revocable: wire.ResourcesStruct(v.Revocable), TasksMaybeMore: v.MaybeMore, Occupied: wire.ResourcesStruct(v.Occupied),
	}
	shown.Ill, shown.Unacknowledged = wire.Texts(v.Ill), wire.Texts(v.Unacknowledged)
	for _, stub := range v.Apart[:min(len(v.Apart), apartShownMax)] {
		shown.Apart = append(shown.Apart, stub.TaskRef.String())
	}
	if booked := v.Volumes.Booked; len(booked) > 0 {
		shown.Volumes = make(map[string]uint64, len(booked))
		for id, generation := range booked {
			shown.Volumes[string(id)] = generation
		}
	}
	for _, o := range v.Volumes.Orphans {
		shown.Orphaned = append(shown.Orphaned, &apiv1.OrphanedVolume{
			Volume: string(o.Volume.Volume), Role: string(o.Volume.Reserved), SizeMb: int64(o.Volume.Scalar) / 1000, Why: o.Why,
		})
	}
	return shown
}

func showFramework(v view.Framework) *apiv1.FrameworkView {
	shown := wire.FrameworkView(v.Framework)
	shown.State, shown.Since, shown.Why = v.State, wire.TimeToProto(v.Since), v.Why
	shown.Instance, shown.Session, shown.Admitted = string(v.Instance), v.Session, wire.TimeToProto(v.Admitted)
	shown.Suppressed, shown.Allocated, shown.Offered = wire.Texts(v.Suppressed), wire.ResourcesStruct(v.Allocated), wire.ResourcesStruct(v.Offered)
	shown.DominantShare, shown.Tasks, shown.Offers = v.DominantShare, int32(v.Tasks), int32(v.Offers)
	if p := v.Placed; p.Tasks() > 0 {
		shown.Locality = &apiv1.LocalityView{Node: int64(p.Node), Near: int64(p.Near), Any: int64(p.Any),
			Waited: durationpb.New(p.Waited), Longest: durationpb.New(p.Longest), Idle: durationpb.New(p.Idle)}
	}
	for _, demand := range v.Demand {
		for _, shape := range demand.Shapes {
			shown.Demand = append(shown.Demand, &apiv1.DemandView{
				Role: string(demand.Role), Resources: wire.ResourcesStruct(shape.Resources), Count: shape.Count, Constraint: shape.Constraint,
				Preferred: wire.Texts(shape.Preferred), OnlyPreferred: shape.OnlyPreferred, Spread: wire.SpreadToProto(shape.Spread), Group: shape.Group,
			})
		}
	}
	return shown
}

func showTask(v view.Task) *apiv1.TaskView {
	shown := taskView(v)
	shown.Resources = wire.ResourcesStruct(v.Resources)
	return shown
}

// taskView is showTask without the resources.
func taskView(v view.Task) *apiv1.TaskView {
	shown := &apiv1.TaskView{
		Id: string(v.Task.ID), FrameworkId: string(v.Framework), FrameworkName: v.FrameworkName, Name: v.Task.DisplayName(),
		Role: string(v.Role), State: v.Status.State.String(), Reason: v.Status.Reason.String(), Message: v.Status.Message,
		AgentId: string(v.Agent), Hostname: v.Hostname, AgentAddress: v.AgentAddress, ExecutorId: string(v.Task.ExecutorID()),
		Launched: wire.TimeToProto(v.Launched), Since: wire.TimeToProto(v.Status.At),
		Labels: v.Task.Labels, Usage: wire.UsageToProto(v.Usage), Command: wire.CommandToProto(v.Task.Command),
		Secrets: wire.SecretsToProto(v.Task.Secrets), Owner: v.Task.Owner,
	}
	if v.Status.Executor != "" {
		shown.ExecutorId = string(v.Status.Executor)
	}
	shown.Healthy, shown.Gpus = v.Status.Healthy, v.Status.GPUs
	shown.Image = cmp.Or(v.Status.Image, v.Task.Image)
	if v.Status.ExitCode != nil {
		code := int32(*v.Status.ExitCode)
		shown.ExitCode = &code
	}
	if len(v.Task.Ports) > 0 {
		shown.Ports = make(map[string]uint32, len(v.Task.Ports))
		for name, port := range v.Task.Ports {
			shown.Ports[name] = uint32(port)
		}
	}
	return shown
}

func showOffer(v view.Offer) *apiv1.OfferView {
	shown := offerView(v)
	shown.Resources = wire.ResourcesStruct(v.Offer.Resources)
	return shown
}

// offerView is showOffer without the resources.
func offerView(v view.Offer) *apiv1.OfferView {
	o := v.Offer
	return &apiv1.OfferView{
		Id: string(o.ID), FrameworkId: string(o.Framework), FrameworkName: v.FrameworkName, AgentId: string(o.Agent),
		Hostname: o.Hostname, Role: string(o.Role), Since: wire.TimeToProto(v.Since), Expires: wire.TimeToProto(v.Expires),
	}
}

func showExecutor(v view.Executor) *apiv1.ExecutorView {
	return &apiv1.ExecutorView{
		Id: string(v.Ref.Executor), FrameworkId: string(v.Ref.Framework), FrameworkName: v.FrameworkName, AgentId: string(v.Agent), Hostname: v.Hostname,
		Role: string(v.Role), Resources: wire.ResourcesStruct(v.Resources), Tasks: int32(v.Tasks), Launching: v.Launching, Usage: wire.UsageToProto(v.Usage),
	}
}

func showOperation(v view.Operation) *apiv1.OperationView {
	o := v.Operation
	return &apiv1.OperationView{
		Id: string(o.ID), FrameworkId: string(v.Framework), FrameworkName: v.FrameworkName, AgentId: string(v.Agent), Hostname: v.Hostname,
		Role: string(v.Role), Kind: apiv1.OperationKind(o.Kind), Resources: wire.ResourcesStruct(o.Resources), Volume: string(o.Volume), State: string(v.State), Why: v.Why,
	}
}

func showDecision(d view.Decision) *apiv1.ExplainedDecision {
	return &apiv1.ExplainedDecision{
		At: wire.TimeToProto(d.At), Made: wire.TimeToProto(d.Made), OfferId: string(d.Offer), AgentId: string(d.Agent), Role: string(d.Role),
		Resources: wire.ResourcesStruct(d.Resources), Outcome: string(d.Outcome), Why: d.Words(), Launched: int32(d.Launched),
	}
}

func showRole(v view.Role) *apiv1.RoleView {
	return &apiv1.RoleView{
		Role: string(v.Role), Weight: v.Weight, Priority: int32(v.Priority), Guarantee: wire.ResourcesStruct(v.Guarantee),
		Limit: wire.ResourcesStruct(v.Limit), Allocated: wire.ResourcesStruct(v.Allocated), Offered: wire.ResourcesStruct(v.Offered),
		Reserved: wire.ResourcesStruct(v.Reserved), DominantShare: v.DominantShare, Frameworks: int32(v.Frameworks),
	}
}

func showSecret(v view.Secret) *apiv1.SecretView {
	return &apiv1.SecretView{Name: string(v.ID), Role: string(v.ID.Role()), Set: wire.TimeToProto(v.Set), By: v.By}
}

func showUsage(v view.UsageRow) *apiv1.UsageView {
	shown := &apiv1.UsageView{
		Begin: wire.TimeToProto(v.Begin), End: wire.TimeToProto(v.End), Role: string(v.Role), Principal: v.Principal,
		FrameworkId: string(v.Framework), FrameworkName: v.Name, Job: v.Job,
		Allocated: make(map[string]float64), Used: make(map[string]float64), Ended: make(map[string]uint64),
	}
	for _, sum := range v.Sums {
		if sum.Held > 0 {
			shown.Allocated[sum.Resource] = float64(sum.Held) / 1000
		}
		if sum.Used > 0 {
			shown.Used[sum.Resource] = float64(sum.Used) / 1000
		}
	}
	for _, ends := range v.Ends {
		shown.Ended[ends.State.String()] = ends.Count
	}
	return shown
}
