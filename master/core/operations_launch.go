package core

import (
	"fmt"
	"strconv"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/core/launching"
	"github.com/tenderhq/tender/master/core/secrets"
	"github.com/tenderhq/tender/master/view"
)

// launch starts one task of an accept, or refuses it with a reason. The other tasks are not affected.
func (r *operations) launch(x *acceptance, wish api.Task) {
	plan, fault := r.planLaunch(x, wish, nil)
	if fault != nil {
		r.refuseTask(x, wish, fault)
		return
	}
	launch := r.bookLaunch(x, wish, plan)
	r.tellAgent(x.agent, launch)
	r.logLaunch(x, launch)
}

func (r *operations) logLaunch(x *acceptance, launch protocol.LaunchTask) {
	if r.config.Debug {
		ref := api.TaskRef{Framework: launch.Framework.ID, Task: launch.Task.ID}
		r.debug("task launched", field("task", ref.String()), field("agent", x.agent.id), field("resources", launch.Resources.String()))
	}
}

// bookLaunch adds the task of a launch that has passed all checks, and returns the message for its agent.
func (r *operations) bookLaunch(x *acceptance, wish api.Task, plan launching.Plan) protocol.LaunchTask {
	fw := x.session.framework
	fw.launches.placed.Count(wish.Placement)
	wish.Placement = api.Placement{}
	x.left = plan.Left
	r.launched++
	t := &task{
		ref:       api.TaskRef{Framework: fw.id, Task: wish.ID},
		name:      wish.Name,
		framework: fw,
		agent:     x.agent,
		role:      x.role,
		resources: plan.Task,
		launch:    api.LaunchID{Term: r.term, Number: r.launched},
		launched:  r.now,
		status:    status{State: api.TaskStaging, Source: api.MoverMaster, At: r.now},
		held:      true,
		proven:    true,
	}
	fw.launches.alike.share(t, wish)
	fw.tasks[wish.ID] = t
	x.agent.addTask(t)
	x.agent.meter.Add(t.metered())
	x.agent.Use(x.agent.id, t.resources)
	fw.share.Add(view.Tally{Tasks: 1})
	fw.holdTask(t)
	t.account = r.accountOfTask(t)
	r.accounts.Hold(t.account, t.resources, r.now)
	r.book(x, t.claim())
	r.noteTask(t, change.Launched, "", api.ReasonNone)
	if plan.Starts {
		r.startExecutor(x, t, plan.Executor)
	}
	return protocol.LaunchTask{
		Task:              wish,
		Framework:         fw.info,
		Role:              x.role,
		Resources:         plan.Task,
		ExecutorResources: plan.Executor,
		Number:            t.launch.Number,
		Receipt:           r.receiptOf(t.signed()),
		ExecutorReceipt:   r.receiptOf(t.signedExecutor(plan.Executor)),
	}
}

// startExecutor books the executor that the launch starts.
func (r *operations) startExecutor(x *acceptance, t *task, resources api.Resources) {
	info := api.Executor{ID: api.CommandExecutor}
	if t.task.Executor != nil {
		info = *t.task.Executor
	}
	fw := x.session.framework
	x.agent.Use(x.agent.id, resources)
	started := &executor{
		ref:       api.ExecutorRef{Framework: fw.id, Executor: info.ID},
		info:      info,
		framework: fw,
		agent:     x.agent,
		role:      x.role,
		resources: resources,
		starter:   t,
	}
	r.executors.addExecutor(started)
	r.noteExecutor(started, change.Started, "")
	r.book(x, started.claim())
}

// reportRefused logs in one line how many tasks of an accept were refused, and why the first one was.
func (r *operations) reportRefused(x *acceptance) {
	if x.refused == 0 {
		return
	}
	fields := []Field{field("task", string(x.session.framework.id)+"/"+string(x.firstRefused)), field("agent", x.agent.id),
		field("reason", x.firstFault.Reason.String()), field("why", x.firstFault.Message)}
	if x.refused > 1 {
		fields = append(fields, field("and_others", strconv.Itoa(x.refused-1)))
	}
	r.info("task refused", fields...)
	x.refused = 0
}

// refuseTask tells the framework that a task was refused and why.
func (r *operations) refuseTask(x *acceptance, wish api.Task, fault *launching.Fault) {
	fw := x.session.framework
	if x.refused++; x.refused == 1 {
		x.firstRefused, x.firstFault = wish.ID, fault
	}
	r.countEndIn(r.accountOf(fw.id, &fw.info, x.role, wish.Labels[api.JobLabel]), fault.State)
	r.note(change.Record{
		Kind: change.Task, What: change.StateOfTask(fault.State), Agent: x.agent.id, Framework: fw.id, Task: wish.ID, Role: x.role,
		Owner: wish.Owner, Job: wish.Labels[api.JobLabel], Why: fault.Message, Reason: fault.Reason,
	})
	r.tasks.tellStatus(fw, api.Status{Framework: fw.id, Task: wish.ID, Agent: x.agent.id, Executor: wish.ExecutorID(),
		State: fault.State, Reason: fault.Reason, Message: fault.Message, Source: api.MoverMaster, At: r.now})
}

// launchGroup starts the tasks of an operation as one group, or none of them (R46). Each is checked against what those
// before it leave; nothing is booked before all have passed.
func (r *operations) launchGroup(x *acceptance, tasks []api.Task) {
	offered := x.left
	plans, culprit, fault := r.planGroup(x, tasks)
	x.left = offered
	if fault != nil {
		r.refuseGroup(x, tasks, culprit, fault)
		return
	}
	group := protocol.LaunchGroup{Tasks: make([]protocol.LaunchTask, len(tasks))}
	for i, task := range tasks {
		group.Tasks[i] = r.bookLaunch(x, task, plans[i])
	}
	r.tellAgent(x.agent, group)
	for _, launch := range group.Tasks {
		r.logLaunch(x, launch)
	}
}

// wholeGroup stands in for the index of a task when the fault concerns the whole group.
const wholeGroup = -1

// planGroup checks the tasks one after the other. If one can't be started it returns its index and the reason.
func (r *operations) planGroup(x *acceptance, tasks []api.Task) (plans []launching.Plan, culprit int, _ *launching.Fault) {
	if err := api.CheckTaskGroup(tasks); err != nil { // the agent checks it with the same function
		return nil, wholeGroup, launching.Invalid("%v", err)
	}
	var first *api.Task
	for i, task := range tasks {
		plan, f := r.planLaunch(x, task, first)
		if f != nil {
			return nil, i, f
		}
		plans, x.left, first = append(plans, plan), plan.Left, &tasks[0]
	}
	if f := launching.MessageFault(x.session.framework.info, api.GroupBytesMax, plans...); f != nil {
		return nil, wholeGroup, f
	}
	return plans, 0, nil
}

// refuseGroup refuses the tasks of a group of which one can't be started: that one for its own fault, the others
// because of it.
func (r *operations) refuseGroup(x *acceptance, tasks []api.Task, culprit int, f *launching.Fault) {
	if culprit == wholeGroup {
		for _, task := range tasks {
			r.refuseTask(x, task, f)
		}
		return
	}
	why := fmt.Sprintf("task %s of its group was refused: %s", tasks[culprit].ID, f.Message)
	r.refuseTask(x, tasks[culprit], f) // first, because the log names the first refused task
	for i, task := range tasks {
		if i != culprit {
			r.refuseTask(x, task, launching.Dropped(api.ReasonTaskGroupFailed, why))
		}
	}
}

// planLaunch checks whether a task can be launched with what is left of the offers. The argument first is the first
// task of its group; nil if it is that one, or in no group.
func (r *operations) planLaunch(x *acceptance, wish api.Task, first *api.Task) (launching.Plan, *launching.Fault) {
	if f := r.agentFault(x.agent); f != nil {
		return launching.Plan{}, f
	}
	if x.aboveLimit != "" {
		return launching.Plan{}, launching.Dropped(api.ReasonInvalidOffers, x.aboveLimit)
	}
	if err := x.session.framework.share.RoomForTask(); err != nil {
		return launching.Plan{}, launching.Dropped(api.ReasonInvalidOffers, err.Error())
	}
	if err := wish.Check(); err != nil { // the agent checks it with the same function
		return launching.Plan{}, launching.Invalid("%v", err)
	}
	if f := x.userFault(wish); f != nil {
		return launching.Plan{}, f
	}
	if f := r.secretsFault(x, wish); f != nil {
		return launching.Plan{}, f
	}
	if known := x.session.framework.tasks[wish.ID]; known != nil {
		return launching.Plan{}, launching.Refused(api.ReasonTaskDuplicate,
			fmt.Sprintf("task %s is %s on agent %s; an ID is never used twice", wish.ID, known.status.State, known.agent.id))
	}
	if agent, unsettled := x.session.awaits(r.base, wish.ID); unsettled {
		why := "task %s was launched on agent %s, which is not back yet; an ID is never used twice"
		if agent == "" {
			why = "task %s may run on an agent%s that is not back yet; an ID is never used twice"
		}
		return launching.Plan{}, launching.Refused(api.ReasonTaskDuplicate, fmt.Sprintf(why, wish.ID, agent))
	}
	situation := launching.Situation{Framework: x.session.framework.info, Agent: x.agent.id, Left: x.left, First: first}
	if running := x.session.framework.executors[executorKey{x.agent.id, wish.ExecutorID()}]; running != nil {
		situation.Running = &running.info
	}
	return situation.Carve(wish)
}

// userFault returns a fault when the scheduler's principal may not run tasks as the users that the task names.
func (x *acceptance) userFault(wish api.Task) *launching.Fault {
	by, info := x.session.by, x.session.framework.info
	object := rights.Object{Framework: info.ID, Name: info.Name, Principal: info.Principal, Role: x.role, Agent: x.agent.id, Hostname: x.agent.info.Hostname}
	commands := []*api.Command{wish.Command}
	if wish.Executor != nil {
		commands = append(commands, &wish.Executor.Command)
	}
	for _, command := range commands {
		if command != nil && command.User != "" && !by.MayRunAs(object, command.User) {
			return launching.Refused(api.ReasonTaskUnauthorized, rights.RefuseUser(by.Who, x.role, command.User).Err.Error())
		}
	}
	return nil
}

// secretsFault returns a fault when the task names secrets that it may not have or that do not exist (R48).
func (r *operations) secretsFault(x *acceptance, wish api.Task) *launching.Fault {
	if len(wish.Secrets) == 0 {
		return nil
	}
	if why := secrets.Forbidden(x.role, wish.Secrets); why != "" {
		return launching.Refused(api.ReasonTaskUnauthorized, why)
	}
	if why := secrets.Missing(r.registry, r.keepsSecrets(), wish.Secrets); why != "" {
		return launching.Refused(api.ReasonSecretUnavailable, why)
	}
	return nil
}

// agentFault returns a fault when the agent can't take launches now.
func (r *operations) agentFault(a *agent) *launching.Fault {
	switch marks := r.marks(a); {
	case r.agentByID[a.id] != a:
		return launching.Dropped(api.ReasonAgentRemoved, "agent "+string(a.id)+" was removed")
	case marks.Has(api.MarkGone):
		return launching.Dropped(api.ReasonAgentGone, "agent "+string(a.id)+" is gone")
	case marks.Has(api.MarkDraining):
		return launching.Dropped(api.ReasonAgentDraining, "agent "+string(a.id)+" is draining")
	case !a.phase.Alive():
		return launching.Dropped(api.ReasonAgentDisconnected, "agent "+string(a.id)+" is "+a.state.String()+": "+a.why)
	}
	return nil
}
