package operator

import (
	"context"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/mesos/codec"
	"github.com/tenderhq/tender/internal/mesos/translate"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
	masterv1 "github.com/tenderhq/tender/internal/mesos/v1/master"
	quotav1 "github.com/tenderhq/tender/internal/mesos/v1/quota"
)

// action changes something in the cluster.
type action struct {
	code int // of success
	act  func(context.Context, Cluster, *masterv1.Call) error
}

// actions are the calls that change something.
var actions = map[masterv1.Call_Type]action{
	masterv1.Call_TEARDOWN:                    {http.StatusOK, teardown},
	masterv1.Call_MARK_AGENT_GONE:             {http.StatusOK, markAgentGone},
	masterv1.Call_DRAIN_AGENT:                 {http.StatusOK, drainAgent},
	masterv1.Call_DEACTIVATE_AGENT:            {http.StatusOK, deactivateAgent},
	masterv1.Call_REACTIVATE_AGENT:            {http.StatusOK, reactivateAgent},
	masterv1.Call_UPDATE_WEIGHTS:              {http.StatusOK, updateWeights},
	masterv1.Call_UPDATE_QUOTA:                {http.StatusOK, updateQuota},
	masterv1.Call_SET_QUOTA:                   {http.StatusOK, setQuota},
	masterv1.Call_REMOVE_QUOTA:                {http.StatusOK, removeQuota},
	masterv1.Call_UPDATE_MAINTENANCE_SCHEDULE: {http.StatusOK, updateSchedule},
	masterv1.Call_START_MAINTENANCE:           {http.StatusOK, startMaintenance},
	masterv1.Call_STOP_MAINTENANCE:            {http.StatusOK, stopMaintenance},
	masterv1.Call_RESERVE_RESOURCES:           {http.StatusAccepted, reserve},
	masterv1.Call_UNRESERVE_RESOURCES:         {http.StatusAccepted, unreserve},
	masterv1.Call_CREATE_VOLUMES:              {http.StatusAccepted, createVolumes},
	masterv1.Call_DESTROY_VOLUMES:             {http.StatusAccepted, destroyVolumes},
}

// do answers a call that changes something.
func (r request) do(what action, call *masterv1.Call) error {
	m, name := call.ProtoReflect(), strings.ToLower(call.GetType().String())
	if !m.Has(m.Descriptor().Fields().ByName(protoreflect.Name(name))) {
		return codec.Refuse(http.StatusBadRequest, "Failed to validate master::Call: Expecting '%s' to be present", name)
	}
	if err := what.act(r.r.Context(), r.cluster, call); err != nil {
		return err
	}
	r.w.WriteHeader(what.code)
	return nil
}

func teardown(ctx context.Context, c Cluster, call *masterv1.Call) error {
	id := call.GetTeardown().GetFrameworkId().GetValue()
	_, err := c.Operator().RemoveFramework(ctx, &apiv1.RemoveFrameworkRequest{FrameworkId: id, Force: true})
	return err
}

func mark(ctx context.Context, c Cluster, id string, request *apiv1.MarkAgentRequest) error {
	request.AgentId = id
	_, err := c.Operator().MarkAgent(ctx, request)
	return err
}

func markAgentGone(ctx context.Context, c Cluster, call *masterv1.Call) error {
	return mark(ctx, c, call.GetMarkAgentGone().GetAgentId().GetValue(), &apiv1.MarkAgentRequest{Action: apiv1.AgentAction_MARK_GONE, Force: true})
}

func drainAgent(ctx context.Context, c Cluster, call *masterv1.Call) error {
	asked := call.GetDrainAgent()
	if asked.GetMarkGone() {
		return codec.Refuse(http.StatusNotImplemented, "Tender does not give an agent up by itself once it is drained: drain it without 'mark_gone', and then MARK_AGENT_GONE")
	}
	request := &apiv1.MarkAgentRequest{Action: apiv1.AgentAction_DRAIN}
	if asked.GetMaxGracePeriod() != nil {
		request.Grace = durationpb.New(asked.GetMaxGracePeriod().AsDuration())
	}
	return mark(ctx, c, asked.GetAgentId().GetValue(), request)
}

func deactivateAgent(ctx context.Context, c Cluster, call *masterv1.Call) error {
	return mark(ctx, c, call.GetDeactivateAgent().GetAgentId().GetValue(), &apiv1.MarkAgentRequest{Action: apiv1.AgentAction_DEACTIVATE})
}

func reactivateAgent(ctx context.Context, c Cluster, call *masterv1.Call) error {
	return mark(ctx, c, call.GetReactivateAgent().GetAgentId().GetValue(), &apiv1.MarkAgentRequest{Action: apiv1.AgentAction_REACTIVATE})
}

func setRole(ctx context.Context, c Cluster, role string, request *apiv1.SetRoleRequest) error {
	request.Role = string(translate.Role(role))
	_, err := c.Operator().SetRole(ctx, request)
	return err
}

func updateWeights(ctx context.Context, c Cluster, call *masterv1.Call) error {
	for _, info := range call.GetUpdateWeights().GetWeightInfos() {
		if !(info.GetWeight() > 0) {
			return codec.Refuse(http.StatusBadRequest, "Failed to validate update weights request: Invalid weight '%v': Weights must be positive", info.GetWeight())
		}
	}
	for _, info := range call.GetUpdateWeights().GetWeightInfos() {
		if err := setRole(ctx, c, info.GetRole(), &apiv1.SetRoleRequest{Weight: proto.Float64(info.GetWeight())}); err != nil {
			return err
		}
	}
	return nil
}

// none takes a guarantee or a limit away.
const none = "none"

// amountsText writes amounts by name as SetRole reads them.
func amountsText(by map[string]*mesosv1.Value_Scalar) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, name+":"+api.MilliOf(by[name].GetValue()).String())
	}
	if len(parts) == 0 {
		return none
	}
	return strings.Join(parts, ";")
}

func updateQuota(ctx context.Context, c Cluster, call *masterv1.Call) error {
	asked := call.GetUpdateQuota()
	for _, config := range asked.GetQuotaConfigs() {
		if err := setRole(ctx, c, config.GetRole(), quotaRequest(config, asked.GetForce())); err != nil {
			return err
		}
	}
	return nil
}

func quotaRequest(config *quotav1.QuotaConfig, force bool) *apiv1.SetRoleRequest {
	return &apiv1.SetRoleRequest{
		Guarantee: proto.String(amountsText(config.GetGuarantees())), Limit: proto.String(amountsText(config.GetLimits())), Force: force,
	}
}

// setQuota is of releases before 1.9, where a guarantee was a limit, too.
func setQuota(ctx context.Context, c Cluster, call *masterv1.Call) error {
	asked := call.GetSetQuota().GetQuotaRequest()
	resources, err := translate.ReadResources(asked.GetGuarantee())
	if err != nil {
		return codec.Refuse(http.StatusBadRequest, "Failed to validate set quota request: %v", err)
	}
	config := &quotav1.QuotaConfig{Guarantees: scalars(resources), Limits: scalars(resources)}
	return setRole(ctx, c, asked.GetRole(), quotaRequest(config, asked.GetForce()))
}

func removeQuota(ctx context.Context, c Cluster, call *masterv1.Call) error {
	return setRole(ctx, c, call.GetRemoveQuota().GetRole(), &apiv1.SetRoleRequest{Guarantee: proto.String(none), Limit: proto.String(none)})
}

// machines finds the agents of machines, which Mesos names by hostname and address. Agents that are gone are none: their
// machine may have come back as another one.
func (s *state) machines(ids []*mesosv1.MachineID) (found []string, err error) {
	for _, id := range ids {
		known := len(found)
		for _, a := range s.agents {
			host := id.GetHostname() == "" || strings.EqualFold(id.GetHostname(), a.GetHostname())
			ip := id.GetIp() == "" || net.ParseIP(id.GetIp()).Equal(net.ParseIP(ipOf(a)))
			if host && ip && !marked(a, api.MarkGone) && (id.GetHostname() != "" || id.GetIp() != "") {
				found = append(found, a.GetId())
			}
		}
		if len(found) == known {
			return nil, codec.Refuse(http.StatusBadRequest, "Machine '%s (%s)' has no agent", id.GetHostname(), id.GetIp())
		}
	}
	return found, nil
}

// updateSchedule replaces the whole schedule.
func updateSchedule(ctx context.Context, c Cluster, call *masterv1.Call) error {
	s, err := readState(ctx, c, agents)
	if err != nil {
		return err
	}
	var requests []*apiv1.SetMaintenanceRequest
	planned := make(map[string]bool)
	for _, window := range call.GetUpdateMaintenanceSchedule().GetSchedule().GetWindows() {
		ids, err := s.machines(window.GetMachineIds())
		if err != nil {
			return err
		}
		for _, id := range ids {
			if planned[id] {
				return codec.Refuse(http.StatusBadRequest, "Machine of agent %s appears more than once in the schedule", id)
			}
			planned[id] = true
		}
		when := window.GetUnavailability()
		w := &apiv1.Window{Start: timestamppb.New(timeOf(when.GetStart()))}
		if when.Duration != nil {
			w.Duration = durationpb.New(durationOf(when.GetDuration()))
		}
		requests = append(requests, &apiv1.SetMaintenanceRequest{AgentIds: ids, Window: w})
	}
	var over []string
	for _, a := range s.agents {
		if a.GetMaintenance() != nil && !planned[a.GetId()] {
			over = append(over, a.GetId())
		}
	}
	if len(over) > 0 {
		requests = append(requests, &apiv1.SetMaintenanceRequest{AgentIds: over})
	}
	for _, request := range requests {
		if _, err := c.Operator().SetMaintenance(ctx, request); err != nil {
			return err
		}
	}
	return nil
}

// startMaintenance takes machines down: their agents are drained. Mesos would kill what runs there.
func startMaintenance(ctx context.Context, c Cluster, call *masterv1.Call) error {
	return markMachines(ctx, c, call.GetStartMaintenance().GetMachines(), apiv1.AgentAction_DRAIN)
}

// stopMaintenance brings machines back, and takes them out of the schedule.
func stopMaintenance(ctx context.Context, c Cluster, call *masterv1.Call) error {
	return markMachines(ctx, c, call.GetStopMaintenance().GetMachines(), apiv1.AgentAction_REACTIVATE)
}

func markMachines(ctx context.Context, c Cluster, machines []*mesosv1.MachineID, what apiv1.AgentAction) error {
	s, err := readState(ctx, c, agents)
	if err != nil {
		return err
	}
	ids, err := s.machines(machines)
	if err != nil {
		return err
	}
	planned := slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		return !slices.ContainsFunc(s.agents, func(a *apiv1.AgentView) bool { return a.GetId() == id && a.GetMaintenance() != nil })
	})
	if what == apiv1.AgentAction_REACTIVATE && len(planned) > 0 {
		if _, err := c.Operator().SetMaintenance(ctx, &apiv1.SetMaintenanceRequest{AgentIds: planned}); err != nil {
			return err
		}
	}
	for _, id := range ids {
		if err := mark(ctx, c, id, &apiv1.MarkAgentRequest{Action: what}); err != nil {
			return err
		}
	}
	return nil
}

func reserve(ctx context.Context, c Cluster, call *masterv1.Call) error {
	asked := call.GetReserveResources()
	if len(asked.GetSource()) > 0 {
		return codec.Refuse(http.StatusNotImplemented, "Tender reserves what is free: unreserve 'source' first")
	}
	return change(ctx, c, apiv1.OperationKind_RESERVE, asked.GetAgentId(), asked.GetResources())
}

func unreserve(ctx context.Context, c Cluster, call *masterv1.Call) error {
	asked := call.GetUnreserveResources()
	return change(ctx, c, apiv1.OperationKind_UNRESERVE, asked.GetAgentId(), asked.GetResources())
}

func createVolumes(ctx context.Context, c Cluster, call *masterv1.Call) error {
	asked := call.GetCreateVolumes()
	return change(ctx, c, apiv1.OperationKind_CREATE_VOLUME, asked.GetAgentId(), asked.GetVolumes())
}

func destroyVolumes(ctx context.Context, c Cluster, call *masterv1.Call) error {
	asked := call.GetDestroyVolumes()
	return change(ctx, c, apiv1.OperationKind_DESTROY_VOLUME, asked.GetAgentId(), asked.GetVolumes())
}

// change reserves resources of an agent, makes volumes of them, or undoes either: the resources of each reservation
// together.
func change(ctx context.Context, c Cluster, kind apiv1.OperationKind, agent *mesosv1.AgentID, list []*mesosv1.Resource) error {
	resources, err := translate.ReadResources(list)
	if err != nil {
		return codec.Refuse(http.StatusBadRequest, "Invalid resources: %v", err)
	}
	volumes := kind == apiv1.OperationKind_CREATE_VOLUME || kind == apiv1.OperationKind_DESTROY_VOLUME
	var requests []*apiv1.ReserveRequest
	for _, item := range resources.Items() {
		request := &apiv1.ReserveRequest{AgentId: agent.GetValue(), Role: string(item.Reserved), Tag: item.Tag, Action: kind}
		switch {
		case item.Reserved == "":
			return codec.Refuse(http.StatusBadRequest, "%s is reserved for no role", item.Name)
		case volumes && item.Volume == "":
			return codec.Refuse(http.StatusBadRequest, "%s is no persistent volume", item.Name)
		case volumes:
			request.Volume = string(item.Volume)
			if kind == apiv1.OperationKind_CREATE_VOLUME {
				request.SizeMb = int64(item.Scalar.Float())
			}
		default:
			item.Label = api.Label{Name: item.Name}
			one := api.NewResources(item).String()
			at := slices.IndexFunc(requests, func(r *apiv1.ReserveRequest) bool {
				return r.GetRole() == request.GetRole() && r.GetTag() == request.GetTag()
			})
			if at >= 0 {
				requests[at].Resources += ";" + one
				continue
			}
			request.Resources = one
		}
		requests = append(requests, request)
	}
	for _, request := range requests {
		if _, err := c.Operator().Reserve(ctx, request); err != nil {
			return err
		}
	}
	return nil
}
