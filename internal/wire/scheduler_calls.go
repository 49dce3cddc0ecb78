package wire

import (
	"errors"
	"strconv"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
)

// SchedulerCallsToProto makes one message of all calls, whatever its size. SchedulerCallBatches keeps below the limit.
func SchedulerCallsToProto(calls []protocol.NumberedCall) *apiv1.SchedulerCalls {
	return &apiv1.SchedulerCalls{Calls: Each(calls, schedulerCallToProto)}
}

// SchedulerCallsFromProto reads a batch and checks it. A wrong call becomes protocol.Malformed, which the core answers
// with Refused, and the batch goes on. An error means that the stream must not go on: there are too many calls, one has
// no number, or a Subscribe is wrong, after which nothing could be answered. The calls before it are returned too.
func SchedulerCallsFromProto(m *apiv1.SchedulerCalls) ([]protocol.NumberedCall, error) {
	if err := checkCalls("wire.scheduler", m.GetCalls(), schedulerCallItems); err != nil {
		return nil, err
	}
	calls := make([]protocol.NumberedCall, 0, len(m.GetCalls()))
	for _, one := range m.GetCalls() {
		number := one.GetNumber()
		if number == 0 {
			return calls, api.E("wire.scheduler", api.Invalid, "call 0", errors.New("calls are numbered from 1"))
		}
		c := new(checker)
		call := c.schedulerCall(one)
		if err := c.refusal("wire.scheduler", ""); err != nil {
			err.Subject = "call " + strconv.FormatUint(number, 10)
			if _, first := call.(protocol.Subscribe); first {
				return calls, err
			}
			call = protocol.Malformed{Err: err}
		}
		calls = append(calls, protocol.NumberedCall{Number: number, Call: call})
	}
	return calls, nil
}

func schedulerCallToProto(numbered protocol.NumberedCall) *apiv1.SchedulerCall {
	m := &apiv1.SchedulerCall{Number: numbered.Number}
	switch call := numbered.Call.(type) {
	case protocol.Subscribe:
		m.Call = &apiv1.SchedulerCall_Subscribe{Subscribe: subscribeToProto(call)}
	case protocol.Unsettled:
		m.Call = &apiv1.SchedulerCall_Unsettled{Unsettled: &apiv1.Unsettled{
			Tasks: unsettledToProto(call.Tasks), Last: call.Last}}
	case protocol.Accept:
		m.Call = &apiv1.SchedulerCall_Accept{Accept: acceptToProto(call)}
	case protocol.Decline:
		m.Call = &apiv1.SchedulerCall_Decline{Decline: &apiv1.Decline{
			OfferIds: Texts(call.Offers), Refuse: DurationToProto(call.Filter.Refuse)}}
	case protocol.Kill:
		m.Call = &apiv1.SchedulerCall_Kill{Kill: &apiv1.Kill{
			TaskId: clean(call.Task), AgentId: clean(call.Agent), Grace: DurationToProto(call.Grace)}}
	case protocol.Acknowledge:
		m.Call = &apiv1.SchedulerCall_Acknowledge{Acknowledge: acknowledgeToProto(call)}
	case protocol.Reconcile:
		m.Call = &apiv1.SchedulerCall_Reconcile{Reconcile: &apiv1.Reconcile{Tasks: unsettledToProto(call.Tasks)}}
	case protocol.ReconcileOperations:
		m.Call = &apiv1.SchedulerCall_Operations{Operations: &apiv1.ReconcileOperations{OperationIds: Texts(call.Operations)}}
	case protocol.Suppress:
		m.Call = &apiv1.SchedulerCall_Suppress{Suppress: &apiv1.Suppress{Roles: Texts(call.Roles)}}
	case protocol.Revive:
		m.Call = &apiv1.SchedulerCall_Revive{Revive: &apiv1.Revive{Roles: Texts(call.Roles)}}
	case protocol.SetDemand:
		demand := DemandToProto(call.Demand)
		demand.Unstated = call.Unstated
		m.Call = &apiv1.SchedulerCall_Demand{Demand: demand}
	case protocol.MessageExecutor:
		m.Call = &apiv1.SchedulerCall_Message{Message: &apiv1.MessageExecutor{
			AgentId: clean(call.Agent), ExecutorId: clean(call.Executor), Data: call.Data}}
	case protocol.ShutdownExecutor:
		m.Call = &apiv1.SchedulerCall_Shutdown{Shutdown: &apiv1.ShutdownExecutor{
			AgentId: clean(call.Agent), ExecutorId: clean(call.Executor)}}
	case protocol.AnswerInverse:
		m.Call = &apiv1.SchedulerCall_Inverse{Inverse: &apiv1.AnswerInverse{
			InverseOfferIds: Texts(call.Offers), Accept: call.Accept}}
	case protocol.JobEvent:
		m.Call = &apiv1.SchedulerCall_JobEvent{JobEvent: &apiv1.JobEvent{
			Job: clean(call.Event.Job), What: clean(call.Event.What), Why: clean(call.Event.Why), Role: clean(call.Event.Role),
			Owner: clean(call.Event.Owner), Routine: call.Event.Routine}}
	case protocol.JobDemand:
		wanted := make(map[string]int64, len(call.Wanted))
		for job, count := range call.Wanted { // order: irrelevant because it is a copy
			wanted[clean(job)] = count
		}
		m.Call = &apiv1.SchedulerCall_JobDemand{JobDemand: &apiv1.JobDemand{Wanted: wanted}}
	case protocol.UpdateFramework:
		m.Call = &apiv1.SchedulerCall_Update{Update: &apiv1.UpdateFramework{Framework: FrameworkToProto(call.Framework)}}
	case protocol.Teardown:
		m.Call = &apiv1.SchedulerCall_Teardown{Teardown: &apiv1.Teardown{}}
	case protocol.SchedulerHeartbeat:
		m.Call = &apiv1.SchedulerCall_Heartbeat{Heartbeat: &apiv1.SchedulerHeartbeat{}}
	case protocol.Malformed: // only reading makes it
	}
	return m
}

func (c *checker) schedulerCall(m *apiv1.SchedulerCall) protocol.SchedulerCall {
	switch call := m.GetCall().(type) {
	case *apiv1.SchedulerCall_Subscribe:
		return c.subscribe(call.Subscribe)
	case *apiv1.SchedulerCall_Unsettled:
		return protocol.Unsettled{Tasks: c.unsettled(call.Unsettled.GetTasks()), Last: call.Unsettled.GetLast()}
	case *apiv1.SchedulerCall_Accept:
		return c.accept(call.Accept)
	case *apiv1.SchedulerCall_Decline:
		return protocol.Decline{Offers: c.offerIDs(call.Decline.GetOfferIds()),
			Filter: api.Filter{Refuse: c.signedDuration("refuse", call.Decline.GetRefuse())}}
	case *apiv1.SchedulerCall_Kill:
		return c.kill(call.Kill)
	case *apiv1.SchedulerCall_Acknowledge:
		return c.acknowledge(call.Acknowledge)
	case *apiv1.SchedulerCall_Reconcile:
		return protocol.Reconcile{Tasks: c.unsettled(call.Reconcile.GetTasks())}
	case *apiv1.SchedulerCall_Operations:
		return c.reconcileOperations(call.Operations)
	case *apiv1.SchedulerCall_Suppress:
		return protocol.Suppress{Roles: c.roles(call.Suppress.GetRoles())}
	case *apiv1.SchedulerCall_Revive:
		return protocol.Revive{Roles: c.roles(call.Revive.GetRoles())}
	case *apiv1.SchedulerCall_Demand:
		return protocol.SetDemand{Demand: c.demand(call.Demand), Unstated: call.Demand.GetUnstated()}
	case *apiv1.SchedulerCall_Message:
		agent, executor := c.agentExecutor(call.Message.GetAgentId(), call.Message.GetExecutorId())
		return protocol.MessageExecutor{Agent: agent, Executor: executor, Data: call.Message.GetData()}
	case *apiv1.SchedulerCall_Shutdown:
		agent, executor := c.agentExecutor(call.Shutdown.GetAgentId(), call.Shutdown.GetExecutorId())
		return protocol.ShutdownExecutor{Agent: agent, Executor: executor}
	case *apiv1.SchedulerCall_Inverse:
		return protocol.AnswerInverse{Offers: c.offerIDs(call.Inverse.GetInverseOfferIds()), Accept: call.Inverse.GetAccept()}
	case *apiv1.SchedulerCall_JobEvent:
		return protocol.JobEvent{Event: c.jobEvent(call.JobEvent)}
	case *apiv1.SchedulerCall_JobDemand:
		wanted := call.JobDemand.GetWanted()
		c.size(api.CheckJobDemand(wanted))
		return protocol.JobDemand{Wanted: wanted}
	case *apiv1.SchedulerCall_Update:
		return protocol.UpdateFramework{Framework: c.keptFramework(call.Update.GetFramework())}
	case *apiv1.SchedulerCall_Teardown:
		return protocol.Teardown{}
	case *apiv1.SchedulerCall_Heartbeat:
		return protocol.SchedulerHeartbeat{}
	}
	c.failKind(api.Unsupported, "a call of a kind that is unknown here; is the master older than the scheduler?")
	return nil
}

func (c *checker) jobEvent(m *apiv1.JobEvent) api.JobEvent {
	event := api.JobEvent{
		Job: m.GetJob(), What: c.text("what has happened", m.GetWhat()), Why: c.text("why", m.GetWhy()), Role: c.role(m.GetRole()),
		Owner: c.optionalID("owner", m.GetOwner()), Routine: m.GetRoutine(),
	}
	c.size(event.Check())
	return event
}

func subscribeToProto(call protocol.Subscribe) *apiv1.Subscribe {
	return &apiv1.Subscribe{
		ClusterId:  clean(call.Cluster),
		Term:       TermToProto(call.Term),
		Version:    clean(call.Version),
		Framework:  FrameworkToProto(call.Framework),
		Instance:   clean(call.Instance),
		Suppressed: Texts(call.Suppressed),
		TellLater:  call.TellLater,
	}
}

func (c *checker) subscribe(m *apiv1.Subscribe) protocol.Subscribe {
	return protocol.Subscribe{
		Cluster:    api.ClusterID(c.optionalID("cluster ID", m.GetClusterId())),
		Term:       TermFromProto(m.GetTerm()),
		Version:    c.text("version", m.GetVersion()),
		Framework:  c.keptFramework(m.GetFramework()),
		Instance:   api.Nonce(c.id("instance", m.GetInstance())),
		Suppressed: c.roles(m.GetSuppressed()),
		TellLater:  m.GetTellLater(),
	}
}

func acceptToProto(call protocol.Accept) *apiv1.Accept {
	return &apiv1.Accept{OfferIds: Texts(call.Offers), Refuse: DurationToProto(call.Filter.Refuse), More: call.More, After: call.After,
		Operations: Each(call.Operations, OperationToProto)}
}

func (c *checker) accept(m *apiv1.Accept) protocol.Accept {
	call := protocol.Accept{
		Offers: c.offerIDs(m.GetOfferIds()),
		Filter: api.Filter{Refuse: c.signedDuration("refuse", m.GetRefuse())},
		More:   m.GetMore(),
		After:  m.GetAfter(),
	}
	if c.mayAccept(m) {
		call.Operations = Each(m.GetOperations(), c.operation)
	}
	return call
}

// mayAccept refuses too many operations, or tasks in them, before they are read.
func (c *checker) mayAccept(m *apiv1.Accept) bool {
	tasks := 0
	for _, operation := range m.GetOperations() {
		tasks += len(operation.GetTasks())
	}
	switch operations := len(m.GetOperations()); {
	case operations > api.OperationsPerAnswerMax:
		c.fail("%d operations in one accept, at most %d are allowed", operations, api.OperationsPerAnswerMax)
	case tasks > api.ItemsPerCallMax:
		c.fail("%d tasks in one accept, at most %d are allowed", tasks, api.ItemsPerCallMax)
	default:
		return true
	}
	return false
}

func (c *checker) offerIDs(ids []string) []api.OfferID {
	if len(ids) == 0 {
		c.fail("no offer is named")
	}
	if len(ids) > api.OffersPerAnswerMax {
		c.fail("%d offers are named, at most %d are allowed", len(ids), api.OffersPerAnswerMax)
		return nil
	}
	return typed[api.OfferID](ids, c.ids("offer ID"))
}

func (c *checker) kill(m *apiv1.Kill) protocol.Kill {
	return protocol.Kill{
		Task:  api.TaskID(c.id("task ID", m.GetTaskId())),
		Agent: api.AgentID(c.optionalID("agent ID", m.GetAgentId())),
		Grace: c.duration("grace", m.GetGrace()),
	}
}

func unsettledToProto(tasks []protocol.UnsettledTask) []*apiv1.UnsettledTask {
	if len(tasks) == 0 {
		return nil
	}
	slab := make([]apiv1.UnsettledTask, len(tasks))
	all := make([]*apiv1.UnsettledTask, len(tasks))
	for i, task := range tasks {
		slab[i].TaskId, slab[i].AgentId = clean(task.Task), clean(task.Agent)
		slab[i].Number, slab[i].State = task.Number, apiv1.TaskState(task.State)
		all[i] = &slab[i]
	}
	return all
}

func (c *checker) unsettled(tasks []*apiv1.UnsettledTask) []protocol.UnsettledTask {
	if len(tasks) == 0 || !c.listed("tasks", len(tasks)) {
		return nil
	}
	all := make([]protocol.UnsettledTask, len(tasks))
	for i, task := range tasks {
		all[i] = protocol.UnsettledTask{
			Task:   api.TaskID(c.id("task ID", task.GetTaskId())),
			Agent:  api.AgentID(c.optionalID("agent ID", task.GetAgentId())),
			Number: task.GetNumber(),
		}
		if task.GetState() != apiv1.TaskState_TASK_STATE_UNSPECIFIED { // unspecified: no status was heard of yet
			all[i].State = c.taskState(task.GetState())
		}
	}
	return all
}

func (c *checker) reconcileOperations(m *apiv1.ReconcileOperations) protocol.ReconcileOperations {
	ids := m.GetOperationIds()
	if len(ids) > api.OperationsPerQuestionMax {
		c.fail("%d operations are named, at most %d are allowed", len(ids), api.OperationsPerQuestionMax)
		return protocol.ReconcileOperations{}
	}
	return protocol.ReconcileOperations{Operations: typed[api.OperationID](ids, c.ids("operation ID"))}
}

func acknowledgeToProto(call protocol.Acknowledge) *apiv1.Acknowledge {
	slab := make([]apiv1.Acknowledgement, len(call.Items))
	all := make([]*apiv1.Acknowledgement, len(call.Items))
	for i, item := range call.Items {
		slab[i].FrameworkId, slab[i].TaskId = clean(item.Framework), clean(item.Task)
		slab[i].AgentId, slab[i].Number = clean(item.Agent), item.Number
		all[i] = &slab[i]
	}
	return &apiv1.Acknowledge{Items: all}
}

func (c *checker) acknowledge(m *apiv1.Acknowledge) protocol.Acknowledge {
	items := m.GetItems()
	if len(items) == 0 || !c.listed("acknowledgements", len(items)) {
		return protocol.Acknowledge{}
	}
	all := make([]protocol.Acknowledgement, len(items))
	for i, item := range items {
		all[i] = protocol.Acknowledgement{
			Framework: api.FrameworkID(c.optionalID("framework ID", item.GetFrameworkId())),
			Task:      api.TaskID(c.id("task ID", item.GetTaskId())),
			Agent:     api.AgentID(c.optionalID("agent ID", item.GetAgentId())),
			Number:    item.GetNumber(),
		}
	}
	return protocol.Acknowledge{Items: all}
}

func (c *checker) agentExecutor(agent, executor string) (api.AgentID, api.ExecutorID) {
	return api.AgentID(c.id("agent ID", agent)), api.ExecutorID(c.id("executor ID", executor))
}
