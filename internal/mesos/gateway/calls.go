package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/internal/mesos/codec"
	"github.com/tenderhq/tender/internal/mesos/translate"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
	schedulerv1 "github.com/tenderhq/tender/internal/mesos/v1/scheduler"
)

// do carries a call out, and returns the status code of its answer. What can't be done is told as Mesos tells it: by an
// event about the task or the operation, or not at all.
func (s *session) do(ctx context.Context, call *schedulerv1.Call) (int, error) {
	var err error
	switch call.GetType() {
	case schedulerv1.Call_TEARDOWN:
		err = s.client.Teardown()
	case schedulerv1.Call_ACCEPT:
		err = s.accept(ctx, call.GetAccept())
	case schedulerv1.Call_DECLINE:
		err = s.decline(offerIDs(call.GetDecline().GetOfferIds()), call.GetDecline().GetFilters())
	case schedulerv1.Call_ACCEPT_INVERSE_OFFERS:
		err = s.client.AnswerInverse(true, offerIDs(call.GetAcceptInverseOffers().GetInverseOfferIds())...)
	case schedulerv1.Call_DECLINE_INVERSE_OFFERS:
		err = s.client.AnswerInverse(false, offerIDs(call.GetDeclineInverseOffers().GetInverseOfferIds())...)
	case schedulerv1.Call_REVIVE:
		err = s.suppress(false, s.named(call.GetRevive().GetRoles()))
	case schedulerv1.Call_SUPPRESS:
		err = s.suppress(true, s.named(call.GetSuppress().GetRoles()))
	case schedulerv1.Call_KILL:
		err = s.kill(call.GetKill())
	case schedulerv1.Call_SHUTDOWN:
		err = s.client.Shutdown(api.AgentID(call.GetShutdown().GetAgentId().GetValue()), translate.ReadExecutorID(call.GetShutdown().GetExecutorId()))
	case schedulerv1.Call_ACKNOWLEDGE:
		err = s.acknowledge(call.GetAcknowledge())
	case schedulerv1.Call_RECONCILE:
		err = s.reconcile(call.GetReconcile())
	case schedulerv1.Call_RECONCILE_OPERATIONS:
		err = s.reconcileOperations(call.GetReconcileOperations())
	case schedulerv1.Call_MESSAGE:
		m := call.GetMessage()
		err = s.client.Message(api.AgentID(m.GetAgentId().GetValue()), translate.ReadExecutorID(m.GetExecutorId()), m.GetData())
	case schedulerv1.Call_REQUEST, schedulerv1.Call_ACKNOWLEDGE_OPERATION_STATUS:
		// As in Mesos's own allocator, a request is heard and changes nothing. Outcomes of operations need no
		// acknowledgement here: masters remember them.
	case schedulerv1.Call_UPDATE_FRAMEWORK:
		return http.StatusOK, s.updateFramework(ctx, call.GetUpdateFramework())
	default:
		return 0, codec.Refuse(http.StatusNotImplemented, "the call %s is not known", call.GetType())
	}
	if e := new(api.Error); errors.As(err, &e) && e.Kind == api.Unavailable {
		return 0, codec.Refuse(http.StatusServiceUnavailable, "%v", err)
	} else if errors.As(err, &e) {
		return 0, codec.Refuse(http.StatusBadRequest, "%v", err)
	}
	return http.StatusAccepted, err
}

func offerIDs(ids []*mesosv1.OfferID) []api.OfferID {
	list := make([]api.OfferID, len(ids))
	for i, id := range ids {
		list[i] = api.OfferID(id.GetValue())
	}
	return list
}

// decline gives offers back. Declining nothing is legal, and does nothing.
func (s *session) decline(ids []api.OfferID, filters *mesosv1.Filters) error {
	s.mu.Lock()
	s.offers.take(ids)
	s.mu.Unlock()
	var answers []api.Answer
	for _, id := range ids { // they may be of several agents
		answers = append(answers, api.Answer{Offers: []api.OfferID{id}, Filter: translate.Refuse(filters)})
	}
	if len(answers) == 0 {
		return nil
	}
	return s.client.Answer(answers...)
}

// named returns the framework's roles of these names; none means all. A role that is none of the framework's is skipped,
// as in Mesos.
func (s *session) named(names []string) []api.Role {
	return slices.DeleteFunc(s.client.Roles(), func(role api.Role) bool {
		return len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool { return translate.Role(name) == role })
	})
}

// suppress suppresses or revives roles. Where a launch that fell through waits for offers, its role is suppressed after
// it.
func (s *session) suppress(suppressed bool, roles []api.Role) error {
	s.mu.Lock()
	for _, role := range roles {
		if suppressed {
			s.roles.suppressed[role] = true
		} else {
			delete(s.roles.suppressed, role)
		}
		if s.launches.waitIn(role) {
			s.roles.wake(role)
		}
	}
	if suppressed {
		roles = slices.DeleteFunc(roles, func(role api.Role) bool { return s.roles.woken[role] })
	}
	s.mu.Unlock()
	switch {
	case len(roles) == 0: // for the SDK none means all
		return nil
	case suppressed:
		return s.client.Suppress(roles...)
	}
	return s.client.Revive(roles...)
}

func (s *session) kill(call *schedulerv1.Call_Kill) error {
	if s.killHeld(translate.ReadTaskID(call.GetTaskId())) {
		return nil
	}
	var options []framework.KillOption
	if grace := call.GetKillPolicy().GetGracePeriod(); grace != nil {
		options = append(options, framework.Within(max(time.Duration(grace.GetNanoseconds()), 1)))
	}
	return s.client.Kill(translate.ReadTaskID(call.GetTaskId()), options...)
}

// acknowledge forgets a status that the framework has handled. A uuid that is not awaited is of an earlier session: its
// status comes again.
func (s *session) acknowledge(call *schedulerv1.Call_Acknowledge) error {
	s.mu.Lock()
	status, awaited := s.unacked[string(call.GetUuid())]
	delete(s.unacked, string(call.GetUuid()))
	s.mu.Unlock()
	if !awaited {
		return nil
	}
	return s.client.Acknowledge(status)
}

// reconcile asks for the states of tasks. Of a task whose status the framework has yet to acknowledge that status is the
// answer, because the SDK tells nothing more of a task until then.
func (s *session) reconcile(call *schedulerv1.Call_Reconcile) error {
	held := make(map[api.TaskID]api.Status)
	s.mu.Lock()
	launched := maps.Clone(s.launches.byTask)
	for _, status := range s.unacked {
		held[status.Task] = status
	}
	for id, one := range s.launches.byTask { // what is held is on its way still
		if one.hasFallen() {
			held[id] = api.Status{Task: id, Agent: one.agent, State: api.TaskStaging, Source: api.MoverMaster, At: time.Now()}
		}
	}
	s.mu.Unlock()
	if len(call.GetTasks()) == 0 {
		for _, id := range slices.Sorted(maps.Keys(held)) {
			s.tellAgain(held[id])
		}
		return s.client.Reconcile()
	}
	at := make(map[api.AgentID][]api.TaskID) // without an agent too
	for _, task := range call.GetTasks() {
		id, agent := translate.ReadTaskID(task.GetTaskId()), api.AgentID(task.GetAgentId().GetValue())
		if status, is := held[id]; is {
			s.tellAgain(status)
			continue
		}
		if launched[id] != nil { // it may have yet to come to its agent
			agent = ""
		}
		at[agent] = append(at[agent], id)
	}
	for _, agent := range slices.Sorted(maps.Keys(at)) {
		if err := s.client.ReconcileAt(agent, at[agent]...); err != nil {
			return err
		}
	}
	return nil
}

// tellAgain tells a status as the answer to a reconciliation.
func (s *session) tellAgain(status api.Status) {
	status.Reason = api.ReasonReconciliation
	ip := s.ip(s.gateway.life, status)
	s.mu.Lock()
	written := s.framework.WriteStatus(status, ip)
	s.mu.Unlock()
	s.update(written)
}

func (s *session) reconcileOperations(call *schedulerv1.Call_ReconcileOperations) error {
	ids := make([]api.OperationID, len(call.GetOperations()))
	for i, operation := range call.GetOperations() {
		ids[i] = api.OperationID(translate.EscapeID(operation.GetOperationId().GetValue()))
	}
	return s.client.ReconcileOperations(ids...)
}

// updateFramework changes what the framework says of itself. What Mesos does not let change is refused as there.
func (s *session) updateFramework(ctx context.Context, call *schedulerv1.Call_UpdateFramework) error {
	f, err := translate.ReadFramework(call.GetFrameworkInfo())
	if err != nil {
		return codec.Refuse(http.StatusBadRequest, "Supplied FrameworkInfo is not valid: %v", err)
	}
	s.mu.Lock()
	former := s.framework
	s.mu.Unlock()
	old := former.Info
	switch info := f.Info; {
	case info.GetPrincipal() != old.GetPrincipal():
		return codec.Refuse(http.StatusBadRequest, "Changing framework's principal is not allowed.")
	case info.GetUser() != old.GetUser():
		return codec.Refuse(http.StatusBadRequest, "Updating 'FrameworkInfo.user' is unsupported; attempted to update from '%s' to '%s'", old.GetUser(), info.GetUser())
	case info.GetCheckpoint() != old.GetCheckpoint():
		return codec.Refuse(http.StatusBadRequest, "Updating 'FrameworkInfo.checkpoint' is unsupported; attempted to update from '%t' to '%t'",
			old.GetCheckpoint(), info.GetCheckpoint())
	case info.GetName() != old.GetName():
		return codec.Refuse(http.StatusBadRequest, "Updating 'FrameworkInfo.name' is unsupported here; attempted to update from '%s' to '%s'",
			old.GetName(), info.GetName())
	}
	suppressed, err := f.SuppressedRoles(call.GetSuppressedRoles())
	if err != nil {
		return codec.Refuse(http.StatusBadRequest, "%v", err)
	}
	var said api.Framework
	if err := describe(&said, f, call.GetOfferConstraints()); err != nil {
		return codec.Refuse(http.StatusBadRequest, "%v", err)
	}
	s.describeAs(f) // offers may come by the new description before the update has returned
	err = s.client.UpdateFramework(ctx, func(now *api.Framework) {
		now.Roles, now.FailoverTimeout, now.Constraint, now.MinOffer = said.Roles, said.FailoverTimeout, said.Constraint, said.MinOffer
		now.Revocable, now.Labels, now.Endpoints = said.Revocable, said.Labels, said.Endpoints
	})
	if err != nil {
		s.describeAs(former)
		return codec.Refuse(http.StatusBadRequest, "%v", err)
	}
	s.mu.Lock()
	revived := slices.DeleteFunc(slices.Collect(maps.Keys(s.roles.suppressed)), func(role api.Role) bool { return slices.Contains(suppressed, role) })
	s.mu.Unlock()
	return cmp.Or(s.suppress(false, revived), s.suppress(true, suppressed))
}

// describeAs sets how events are written for the framework.
func (s *session) describeAs(f *translate.Framework) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.framework = f
}

// accept answers offers with operations. A task that can't run ends TASK_ERROR, and stops no other. What was to be
// launched in offers that have just gone has fallen through.
func (s *session) accept(ctx context.Context, call *schedulerv1.Call_Accept) error {
	ids := offerIDs(call.GetOfferIds())
	s.mu.Lock()
	at, gone := s.offers.take(ids)
	s.mu.Unlock()
	answer := api.Answer{Offers: ids, Filter: translate.Refuse(call.GetFilters())}
	if gone != "" || at == (place{}) {
		why := fmt.Sprintf("Offer %s is no longer valid", gone)
		var err error
		switch {
		case len(ids) == 0:
			why = "No offers specified"
		case gone == "":
			why = "Aggregated offers must belong to one single agent and one single role"
			fallthrough
		default:
			err = s.client.Answer(api.Answer{Offers: ids, Filter: api.NoFilter}) // what is still open is given back
		}
		for _, operation := range call.GetOperations() {
			if at == (place{}) || len(tasksOf(operation)) == 0 {
				s.drop(operation, why)
			} else {
				err = cmp.Or(err, s.miss(s.readLaunches(at, operation), why))
			}
		}
		return err
	}
	var launches []*launch
	for _, operation := range call.GetOperations() {
		switch operation.GetType() {
		case mesosv1.Offer_Operation_LAUNCH:
			all := api.Operation{Kind: api.OpLaunch}
			for _, one := range s.readLaunches(at, operation) {
				launches, all.Tasks = append(launches, one), append(all.Tasks, one.operation.Tasks...)
			}
			if len(all.Tasks) > 0 {
				answer.Operations = append(answer.Operations, all)
			}
		case mesosv1.Offer_Operation_LAUNCH_GROUP:
			for _, one := range s.readLaunches(at, operation) {
				launches, answer.Operations = append(launches, one), append(answer.Operations, one.operation)
			}
		default:
			changes, err := s.change(ctx, at.role, operation)
			if err != nil {
				s.failOperation(operation, at.agent, mesosv1.OperationState_OPERATION_ERROR, err.Error())
			}
			answer.Operations = append(answer.Operations, changes...)
		}
	}
	s.keep(launches) // what the framework is told was accepted happens, also if the gateway is killed a moment later
	return s.client.Answer(answer)
}

// miss holds launches whose offers have gone before they were sent.
func (s *session) miss(launches []*launch, why string) error {
	for _, one := range launches {
		one.fallen = make(map[api.TaskID]api.Status)
		for _, task := range one.operation.Tasks {
			one.fallen[task.ID] = api.Status{
				Task: task.ID, Agent: one.agent, State: api.TaskDropped, Reason: api.ReasonInvalidOffers, Source: api.MoverMaster,
				Message: droppedWords + why, At: time.Now(),
			}
		}
	}
	s.keep(launches)
	for _, one := range launches {
		if err := s.hold(one); err != nil {
			return err
		}
	}
	return nil
}

// droppedWords are Mesos's.
const droppedWords = "Task launched with invalid offers: "

// drop tells that an operation was not done because its offers are gone.
func (s *session) drop(operation *mesosv1.Offer_Operation, why string) {
	for _, info := range tasksOf(operation) {
		s.refuseTask(info, api.TaskDropped, api.ReasonInvalidOffers, droppedWords+why)
	}
	s.failOperation(operation, "", mesosv1.OperationState_OPERATION_DROPPED, why)
}

// refuseTask tells the end of a task that was never launched. Nobody else knows of it, so nothing is to be acknowledged.
func (s *session) refuseTask(info *mesosv1.TaskInfo, state api.TaskState, reason api.Reason, why string) {
	s.tell(api.Status{
		Task: translate.ReadTaskID(info.GetTaskId()), Agent: api.AgentID(info.GetAgentId().GetValue()),
		State: state, Reason: reason, Message: why, Source: api.MoverMaster, At: time.Now(),
	})
}

// failOperation tells that an operation was not done, if it has an ID.
func (s *session) failOperation(operation *mesosv1.Offer_Operation, agent api.AgentID, state mesosv1.OperationState, why string) {
	if operation.GetId() == nil {
		return
	}
	status := &mesosv1.OperationStatus{OperationId: operation.GetId(), State: state.Enum(), Message: proto.String(why)}
	if agent != "" {
		status.AgentId = translate.AgentID(agent)
	}
	s.operationStatus(status)
}

func (s *session) operationStatus(status *mesosv1.OperationStatus) {
	s.send(&schedulerv1.Event{Type: schedulerv1.Event_UPDATE_OPERATION_STATUS.Enum(),
		UpdateOperationStatus: &schedulerv1.Event_UpdateOperationStatus{Status: status}})
}
