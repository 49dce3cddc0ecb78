package core

import (
	"strconv"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// launch starts one task of an accept, or ends it with a reason; the others go on.
func (r *operations) launch(x *acceptance, wish api.Task) {
	fw := x.session.framework
	plan, fault := r.planLaunch(x, wish)
	if fault != nil {
		r.refuseTask(x, wish, fault)
		return
	}
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
	}
	t.status = api.Status{Framework: fw.id, Task: wish.ID, Agent: x.agent.id, Executor: wish.ExecutorID(),
		State: api.TaskStaging, Source: api.MoverMaster, At: r.now}
	fw.tasks[wish.ID], x.agent.tasks[t.ref] = t, t
	x.agent.units.add(t)
	x.agent.use(x.agent.id, plan.task)
	fw.hold(x.role, plan.task)
	r.book(x, t.claim())
	if plan.starts {
		r.startExecutor(x, t, plan.executor)
	}
	r.tellAgent(x.agent, protocol.LaunchTask{
		Task:              wish,
		Framework:         fw.info,
		Role:              x.role,
		Resources:         plan.task,
		ExecutorResources: plan.executor,
		Number:            t.launch.number,
		Receipt:           r.receiptOf(t.ref, x.agent.id, t.launch),
	})
	if r.config.Debug {
		r.debug("task launched", field("task", t.ref.String()), field("agent", x.agent.id), field("resources", plan.task.String()))
	}
}

// startExecutor books the executor that the launch starts.
func (r *operations) startExecutor(x *acceptance, t *task, resources api.Resources) {
	info := api.Executor{ID: api.CommandExecutor}
	if t.task.Executor != nil {
		info = *t.task.Executor
	}
	fw := x.session.framework
	x.agent.use(x.agent.id, resources)
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
