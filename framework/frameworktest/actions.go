package frameworktest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/tenderhq/tender/api/v1"

	"github.com/tenderhq/tender/api"
)

// What operators do. Each of these methods returns when the change is in the registry, and fails the test if it is
// refused.

// RoleSettings are an operator's settings of a role. A field that is nil leaves the setting as it is.
type RoleSettings struct {
	Weight    *float64
	Priority  *int32
	Guarantee *api.Resources
	Limit     *api.Resources // zero resources remove the limit
}

// SetRole sets the weight, priority, guarantee or limit of a role.
func (h *Handle) SetRole(role api.Role, set RoleSettings) {
	h.t.Helper()
	text := func(amount *api.Resources) *string {
		if amount == nil {
			return nil
		}
		said := amount.String()
		if amount.IsZero() {
			said = "none"
		}
		return &said
	}
	act(h.operator, "setting role "+string(role), apiv1.OperatorServiceClient.SetRole, &apiv1.SetRoleRequest{
		Role: string(role), Weight: set.Weight, Priority: set.Priority, Guarantee: text(set.Guarantee), Limit: text(set.Limit),
		Force: true, // the story may add its agents later
	})
}

// Limit sets the most that a role may use.
func (h *Handle) Limit(role api.Role, most api.Resources) {
	h.t.Helper()
	h.SetRole(role, RoleSettings{Limit: &most})
}

// Guarantee sets how much is kept for a role.
func (h *Handle) Guarantee(role api.Role, least api.Resources) {
	h.t.Helper()
	h.SetRole(role, RoleSettings{Guarantee: &least})
}

// Priority sets the priority of a role, for clusters with Allocator "priority". Default 0; the highest is served first.
func (h *Handle) Priority(role api.Role, priority int32) {
	h.t.Helper()
	h.SetRole(role, RoleSettings{Priority: &priority})
}

// SetSecret sets the value of a secret, for tasks that start from now on. The ID is ROLE/NAME: the tasks of frameworks
// in that role, or in a role above it, may name the secret.
func (h *Handle) SetSecret(id api.SecretID, value string) {
	h.t.Helper()
	act(h.operator, "setting secret "+string(id), apiv1.OperatorServiceClient.SetSecret, &apiv1.SetSecretRequest{Name: string(id), Value: []byte(value)})
}

// RemoveSecret removes a secret. Tasks that have been given it keep it.
func (h *Handle) RemoveSecret(id api.SecretID) {
	h.t.Helper()
	act(h.operator, "removing secret "+string(id), apiv1.OperatorServiceClient.RemoveSecret, &apiv1.RemoveSecretRequest{Name: string(id)})
}

// Drain kills the agent's tasks and stops offers of the agent. A grace other than 0 is the most that the tasks get,
// whatever their own KillGrace. See AwaitDrained, and Reactivate to undo it.
func (a *Agent) Drain(grace time.Duration) {
	a.handle.t.Helper()
	request := &apiv1.MarkAgentRequest{Action: apiv1.AgentAction_DRAIN}
	if grace > 0 {
		request.Grace = durationpb.New(grace)
	}
	a.markAgent(request)
}

// Deactivate stops offers of the agent and rescinds its open offers; its tasks go on.
func (a *Agent) Deactivate() {
	a.handle.t.Helper()
	a.markAgent(&apiv1.MarkAgentRequest{Action: apiv1.AgentAction_DEACTIVATE})
}

// Reactivate undoes Drain and Deactivate.
func (a *Agent) Reactivate() {
	a.handle.t.Helper()
	a.markAgent(&apiv1.MarkAgentRequest{Action: apiv1.AgentAction_REACTIVATE})
}

// Maintain plans a maintenance window that begins after `after` and lasts for `duration`; a duration of 0 has no end.
// Frameworks with something on the agent are asked to leave by inverse offers. When the window begins the agent is
// drained; when it is over the agent is offered again.
func (a *Agent) Maintain(after, duration time.Duration) {
	a.handle.t.Helper()
	a.setWindow(&apiv1.Window{Start: timestamppb.New(time.Now().Add(after)), Duration: durationpb.New(duration)})
}

// CancelMaintenance undoes Maintain.
func (a *Agent) CancelMaintenance() {
	a.handle.t.Helper()
	a.setWindow(nil)
}

func (a *Agent) setWindow(window *apiv1.Window) {
	a.handle.t.Helper()
	request := &apiv1.SetMaintenanceRequest{AgentIds: []string{string(a.ID())}, Window: window}
	act(a.handle.operator, "maintenance of "+a.host.name, apiv1.OperatorServiceClient.SetMaintenance, request)
}

// RescindOffers rescinds all open offers of the agent. It may be offered again at once.
func (a *Agent) RescindOffers() {
	a.handle.t.Helper()
	a.Deactivate()
	a.Reactivate()
}

// MarkGone declares that the agent will never come back: its tasks are GONE_BY_OPERATOR. If the agent is alive, it
// kills them and joins as a new agent.
func (a *Agent) MarkGone() {
	a.handle.t.Helper()
	a.handle.journal.markedGone(a, a.ID())
	a.markAgent(&apiv1.MarkAgentRequest{Action: apiv1.AgentAction_MARK_GONE, Force: true})
}

// giveUp marks the agent gone if there is a leader that knows it. Otherwise it does nothing.
func (a *Agent) giveUp() {
	id := a.knownID()
	if id == "" {
		return
	}
	a.handle.journal.markedGone(a, id)
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	leader := apiv1.NewOperatorServiceClient(a.handle.operator.conn(a.handle.leaderOrFirst().grpcAddress()))
	_, err := leader.MarkAgent(ctx, &apiv1.MarkAgentRequest{AgentId: string(id), Action: apiv1.AgentAction_MARK_GONE})
	a.handle.logs.add("chaos", fmt.Sprintf("%s is marked gone: %v", id, err))
}

// AwaitDrained waits until a draining agent has no task and no unacknowledged status left.
func (a *Agent) AwaitDrained() {
	a.handle.t.Helper()
	a.awaitView("to be drained", func(view *apiv1.AgentView) bool { return contains(view.GetMarks(), api.MarkDrained.Strings()...) })
}

// AwaitState waits until the leader sees the agent in one of the states.
func (a *Agent) AwaitState(states ...api.AgentState) {
	a.handle.t.Helper()
	var names []string
	for _, state := range states {
		names = append(names, state.String())
	}
	a.awaitView("to be "+strings.Join(names, " or "), func(view *apiv1.AgentView) bool { return contains(names, view.GetState()) })
}

// Lose removes the machine for good, with everything that runs on it, and waits until the leader takes its agent for
// dead: its tasks are then UNREACHABLE.
func (a *Agent) Lose() {
	a.handle.t.Helper()
	a.ID() // the leader can't miss an agent that it has never admitted
	a.Reboot()
	a.AwaitState(api.AgentTombstone)
}

func (a *Agent) markAgent(request *apiv1.MarkAgentRequest) {
	a.handle.t.Helper()
	request.AgentId = string(a.ID())
	act(a.handle.operator, request.GetAction().String()+" of "+a.host.name, apiv1.OperatorServiceClient.MarkAgent, request)
}

func (a *Agent) awaitView(what string, condition func(view *apiv1.AgentView) bool) {
	a.handle.t.Helper()
	id := string(a.ID())
	a.handle.Await(a.host.name+" "+what, func() bool {
		list, err := a.handle.operator.agents()
		if err != nil {
			return false
		}
		for _, view := range list {
			if view.GetId() == id {
				return condition(view)
			}
		}
		return false
	})
}
