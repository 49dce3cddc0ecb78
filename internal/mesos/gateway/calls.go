package gateway

import (
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
		err = s.inRoles(call.GetRevive().GetRoles(), s.client.Revive)
	case schedulerv1.Call_SUPPRESS:
		err = s.inRoles(call.GetSuppress().GetRoles(), s.client.Suppress)
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

// take removes offers, because they are answered. It returns the agent's ID of the last one that was open, and the first
// one that was not.
func (s *session) take(ids []api.OfferID) (agent api.AgentID, gone api.OfferID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		offer, open := s.offers[id]
		if delete(s.offers, id); open {
			agent = offer.Agent
		} else if gone == "" {
			gone = id
		}
	}
	return agent, gone
}

// decline gives offers back. Declining nothing is legal, and does nothing.
func (s *session) decline(ids []api.OfferID, filters *mesosv1.Filters) error {
	s.take(ids)
	var answers []api.Answer
	for _, id := range ids { // they may be of several agents
		answers = append(answers, api.Answer{Offers: []api.OfferID{id}, Filter: translate.Refuse(filters)})
	}
	if len(answers) == 0 {
		return nil
	}
	return s.client.Answer(answers...)
}

// inRoles suppresses or revives roles; none means all. A role that is none of the framework's is skipped, as in Mesos.
func (s *session) inRoles(roles []string, do func(...api.Role) error) error {
	if len(roles) == 0 {
		return do()
	}
	var mine []api.Role
	for _, role := range roles {
		for _, have := range s.client.Roles() {
			if translate.Role(role) == have {
				mine = append(mine, have)
			}
		}
	}
	if len(mine) == 0 {
		return nil
	}
	return do(mine...)
}

func (s *session) kill(call *schedulerv1.Call_Kill) error {
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
	for _, status := range s.unacked {
		held[status.Task] = status
	}
	s.mu.Unlock()
	if len(call.GetTasks()) == 0 {
		for _, id := range slices.Sorted(maps.Keys(held)) {
			s.tellAgain(held[id])
		}
		return s.client.Reconcile()
	}
	var ids []api.TaskID
	for _, task := range call.GetTasks() {
		id := translate.ReadTaskID(task.GetTaskId())
		if status, is := held[id]; is {
			s.tellAgain(status)
		} else {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return s.client.Reconcile(ids...)
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
	if len(suppressed) == 0 {
		return nil
	}
	return s.client.Suppress(suppressed...)
}

// describeAs sets how events are written for the framework.
func (s *session) describeAs(f *translate.Framework) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.framework = f
}

// accept answers offers with operations. A task that can't run ends TASK_ERROR, and stops no other.
func (s *session) accept(ctx context.Context, call *schedulerv1.Call_Accept) error {
	ids := offerIDs(call.GetOfferIds())
	agent, gone := s.take(ids)
	answer := api.Answer{Offers: ids, Filter: translate.Refuse(call.GetFilters())}
	if gone != "" || len(ids) == 0 {
		why := fmt.Sprintf("Offer %s is no longer valid", gone)
		if len(ids) == 0 {
			why = "No offers specified"
		}
		for _, operation := range call.GetOperations() {
			s.drop(operation, why)
		}
		if agent == "" {
			return nil
		}
		return s.client.Answer(answer) // what is still open is given back
	}
	for _, operation := range call.GetOperations() {
		switch operation.GetType() {
		case mesosv1.Offer_Operation_LAUNCH:
			answer.Operations = append(answer.Operations, s.launch(agent, operation.GetLaunch())...)
		case mesosv1.Offer_Operation_LAUNCH_GROUP:
			answer.Operations = append(answer.Operations, s.launchGroup(agent, operation.GetLaunchGroup())...)
		default:
			changes, err := s.change(ctx, operation)
			if err != nil {
				s.failOperation(operation, agent, mesosv1.OperationState_OPERATION_ERROR, err.Error())
			}
			answer.Operations = append(answer.Operations, changes...)
		}
	}
	return s.answer(ctx, agent, answer)
}

// launchTimeout bounds how long the answer to an accept waits until a leader has its launches.
const launchTimeout = 5 * time.Second

// answer sends an accept, and waits until a leader has its launches: what the framework is told was accepted happens,
// also if the gateway is killed a moment later. A leader that takes longer is not waited for; then the framework has to
// reconcile, as with Mesos.
func (s *session) answer(ctx context.Context, agent api.AgentID, answer api.Answer) error {
	last := -1
	for i := range answer.Operations {
		if answer.Operations[i].Kind.Launches() {
			last = i
		}
	}
	if last < 0 {
		return s.client.Answer(answer)
	}
	s.mu.Lock()
	s.accepts++
	id := api.OperationID(fmt.Sprintf("%s%s-%d", launchPrefix, s.stream, s.accepts))
	answer.Operations[last].ID = id
	known := make(chan struct{})
	s.unknown[id] = known
	for _, operation := range answer.Operations {
		for _, task := range operation.Tasks {
			s.launching[task.ID] = launch{agent, id}
		}
	}
	s.mu.Unlock()
	if err := s.client.Answer(answer); err != nil {
		return err
	}
	late := time.NewTimer(launchTimeout)
	defer late.Stop()
	select {
	case <-known:
	case <-late.C:
	case <-s.done:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isKnown(id)
	return nil
}

// launchPrefix begins the IDs of operations by which the gateway learns that a leader has a launch. The framework is not
// told of them.
const launchPrefix = "tender-launch-"

// launch is a launch of which nothing was heard yet.
type launch struct {
	agent     api.AgentID
	operation api.OperationID
}

// isKnown ends the wait for a launch. The caller holds mu.
func (s *session) isKnown(id api.OperationID) {
	if known := s.unknown[id]; known != nil {
		delete(s.unknown, id)
		close(known)
	}
}

// launcher returns what is needed to read the framework's tasks.
func (s *session) launcher() translate.Launch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return translate.Launch{Framework: s.framework.Info, Adapter: s.gateway.config.Adapter}
}

func (s *session) launch(agent api.AgentID, launch *mesosv1.Offer_Operation_Launch) []api.Operation {
	var tasks []api.Task
	how := s.launcher()
	for _, info := range launch.GetTaskInfos() {
		task, err := how.ReadTask(info)
		if err == nil {
			err = checkAgent(info, agent)
		}
		if err != nil {
			s.refuseTask(info, api.TaskError, api.ReasonTaskInvalid, err.Error())
			continue
		}
		tasks = append(tasks, task)
	}
	if len(tasks) == 0 {
		return nil
	}
	return []api.Operation{{Kind: api.OpLaunch, Tasks: tasks}}
}

func checkAgent(info *mesosv1.TaskInfo, agent api.AgentID) error {
	if named := info.GetAgentId().GetValue(); named != string(agent) {
		return fmt.Errorf("Task uses invalid agent %s while agent %s is expected", named, agent) //nolint:staticcheck // Mesos's words
	}
	return nil
}

func (s *session) launchGroup(agent api.AgentID, launch *mesosv1.Offer_Operation_LaunchGroup) []api.Operation {
	how := s.launcher()
	how.Executor = launch.GetExecutor()
	infos := launch.GetTaskGroup().GetTasks()
	for _, info := range infos {
		how.Group = append(how.Group, info.GetTaskId().GetValue())
	}
	var tasks []api.Task
	var wrong error
	for _, info := range infos {
		task, err := how.ReadTask(info)
		if err == nil {
			err = checkAgent(info, agent)
		}
		wrong = errors.Join(wrong, err)
		tasks = append(tasks, task)
	}
	if wrong == nil {
		wrong = api.CheckTaskGroup(tasks)
	}
	if wrong == nil {
		return []api.Operation{{Kind: api.OpLaunchGroup, Tasks: tasks}}
	}
	for _, info := range infos {
		s.refuseTask(info, api.TaskError, api.ReasonTaskInvalid, wrong.Error())
	}
	return nil
}

// drop tells that an operation was not done because its offers are gone.
func (s *session) drop(operation *mesosv1.Offer_Operation, why string) {
	for _, info := range append(operation.GetLaunch().GetTaskInfos(), operation.GetLaunchGroup().GetTaskGroup().GetTasks()...) {
		s.refuseTask(info, api.TaskDropped, api.ReasonInvalidOffers, "Task launched with invalid offers: "+why)
	}
	s.failOperation(operation, "", mesosv1.OperationState_OPERATION_DROPPED, why)
}

// refuseTask tells the end of a task that was never launched. Nobody else knows of it, so nothing is to be acknowledged.
func (s *session) refuseTask(info *mesosv1.TaskInfo, state api.TaskState, reason api.Reason, why string) {
	s.mu.Lock()
	status := s.framework.WriteStatus(api.Status{
		Task: translate.ReadTaskID(info.GetTaskId()), Agent: api.AgentID(info.GetAgentId().GetValue()),
		State: state, Reason: reason, Message: why, Source: api.MoverMaster, At: time.Now(),
	}, "")
	s.mu.Unlock()
	s.update(status)
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
