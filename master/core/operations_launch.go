package core

import (
	"fmt"
	"strconv"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/view"
)

// launch starts one task of an accept, or ends it with a reason; the others go on.
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

// bookLaunch makes the task of a launch that nothing speaks against, and returns what its agent is to be told.
func (r *operations) bookLaunch(x *acceptance, wish api.Task, plan launchPlan) protocol.LaunchTask {
	fw := x.session.framework
	fw.placed.Count(wish.Placement)
	wish.Placement = api.Placement{}
	x.left = plan.left
	r.launched++
	t := &task{
		ref:       api.TaskRef{Framework: fw.id, Task: wish.ID},
		task:      wish,
		framework: fw,
		agent:     x.agent,
		role:      x.role,
		resources: plan.task,
		launch:    launchID{r.term, r.launched},
		launched:  r.now,
		held:      true,
		proven:    true,
	}
	t.status = api.Status{Framework: fw.id, Task: wish.ID, Agent: x.agent.id, Executor: wish.ExecutorID(),
		State: api.TaskStaging, Source: api.MoverMaster, At: r.now}
	fw.tasks[wish.ID], x.agent.tasks[t.ref] = t, t
	x.agent.meter.Add(t.metered())
	x.agent.Use(x.agent.id, plan.task)
	fw.share.Add(view.Tally{Tasks: 1})
	fw.hold(x.role, plan.task)
	r.book(x, t.claim())
	if plan.starts {
		r.startExecutor(x, t, plan.executor)
	}
	return protocol.LaunchTask{
		Task:              wish,
		Framework:         fw.info,
		Role:              x.role,
		Resources:         plan.task,
		ExecutorResources: plan.executor,
		Number:            t.launch.number,
		Receipt:           r.receiptOf(t.ref, x.agent.id, t.launch, wish.Secrets),
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
	r.book(x, started.claim())
}

// reportRefused says in one line how many tasks of an accept were refused, and what was
// wrong with the first.
func (r *operations) reportRefused(x *acceptance) {
	if x.refused == 0 {
		return
	}
	fields := []Field{field("task", string(x.session.framework.id)+"/"+string(x.firstRefused)), field("agent", x.agent.id),
		field("reason", x.firstFault.reason.String()), field("why", x.firstFault.message)}
	if x.refused > 1 {
		fields = append(fields, field("and_others", strconv.Itoa(x.refused-1)))
	}
	r.info("task refused", fields...)
	x.refused = 0
}

// refuseTask ends a task that was never started.
func (r *operations) refuseTask(x *acceptance, wish api.Task, fault *fault) {
	fw := x.session.framework
	if x.refused++; x.refused == 1 {
		x.firstRefused, x.firstFault = wish.ID, fault
	}
	r.tasks.tellStatus(fw, api.Status{Framework: fw.id, Task: wish.ID, Agent: x.agent.id, Executor: wish.ExecutorID(),
		State: fault.state, Reason: fault.reason, Message: fault.message, Source: api.MoverMaster, At: r.now})
}

// launchGroup starts the tasks of an operation as one group, or none of them (R46). Each is judged against what those
// before it have left; nothing is booked before all have passed.
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

// wholeGroup stands for the position of a task where the fault is that of the whole group.
const wholeGroup = -1

// planGroup judges the tasks one after the other, and says which of them can't be started, and why.
func (r *operations) planGroup(x *acceptance, tasks []api.Task) (plans []launchPlan, culprit int, _ *fault) {
	if x.agent.phase.Alive() && !x.agent.can.groups {
		why := fmt.Sprintf("agent %s is of a version that starts no groups of tasks; upgrade it", x.agent.id)
		return nil, wholeGroup, &fault{api.TaskDropped, api.ReasonTaskGroupFailed, why}
	}
	if err := api.CheckTaskGroup(tasks); err != nil { // as the agent judges it, by the same function
		return nil, wholeGroup, invalid("%v", err)
	}
	var first *api.Task
	for i, task := range tasks {
		plan, f := r.planLaunch(x, task, first)
		if f != nil {
			return nil, i, f
		}
		plans, x.left, first = append(plans, plan), plan.left, &tasks[0]
	}
	if f := messageFault(x.session.framework.info, api.GroupBytesMax, plans...); f != nil {
		return nil, wholeGroup, f
	}
	return plans, 0, nil
}

// refuseGroup ends the tasks of a group of which one can't be started: that one for its fault, the others for it.
func (r *operations) refuseGroup(x *acceptance, tasks []api.Task, culprit int, f *fault) {
	if culprit == wholeGroup {
		for _, task := range tasks {
			r.refuseTask(x, task, f)
		}
		return
	}
	why := fmt.Sprintf("task %s of its group was refused: %s", tasks[culprit].ID, f.message)
	r.refuseTask(x, tasks[culprit], f) // first, as it is the one that the log names
	for i, task := range tasks {
		if i != culprit {
			r.refuseTask(x, task, &fault{api.TaskDropped, api.ReasonTaskGroupFailed, why})
		}
	}
}
