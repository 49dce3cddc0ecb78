package core

import (
	"strconv"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// launch starts one task of an accept, or ends it with a reason; the others go on.
func (c *Core) launch(x *acceptance, wish api.Task) {
	fw := x.session.framework
	plan, fault := c.planLaunch(x, wish)
	if fault != nil {
		c.refuseTask(x, wish, fault)
		return
	}
	fw.placed.Count(wish.Placement)
	wish.Placement = api.Placement{}
	x.left = plan.left
	c.launched++
	t := &task{
		ref:       api.TaskRef{Framework: fw.id, Task: wish.ID},
		task:      wish,
		framework: fw,
		agent:     x.agent,
		role:      x.role,
		resources: plan.task,
		launch:    launchID{c.term, c.launched},
		launched:  c.now,
		held:      true,
	}
	t.status = api.Status{Framework: fw.id, Task: wish.ID, Agent: x.agent.id, Executor: wish.ExecutorID(),
		State: api.TaskStaging, Source: api.MoverMaster, At: c.now}
	fw.tasks[wish.ID], x.agent.tasks[t.ref] = t, t
	x.agent.units.add(t)
	x.agent.use(x.agent.id, plan.task)
	fw.hold(x.role, plan.task)
	c.book(x, t.claim())
	if plan.starts {
		c.startExecutor(x, t, plan.executor)
	}
	c.tellAgent(x.agent, protocol.LaunchTask{
		Task:              wish,
		Framework:         fw.info,
		Role:              x.role,
		Resources:         plan.task,
		ExecutorResources: plan.executor,
		Number:            t.launch.number,
	})
	if c.config.Debug {
		c.debug("task launched", field("task", t.ref.String()), field("agent", x.agent.id), field("resources", plan.task.String()))
	}
}

// startExecutor books the executor that the launch starts.
func (c *Core) startExecutor(x *acceptance, t *task, resources api.Resources) {
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
	c.addExecutor(started)
	c.book(x, started.claim())
}

// reportRefused says in one line how many tasks of an accept were refused, and what was
// wrong with the first.
func (c *Core) reportRefused(x *acceptance) {
	if x.refused == 0 {
		return
	}
	fields := []Field{field("task", string(x.session.framework.id)+"/"+string(x.firstRefused)), field("agent", x.agent.id),
		field("reason", x.firstFault.reason.String()), field("why", x.firstFault.message)}
	if x.refused > 1 {
		fields = append(fields, field("and_others", strconv.Itoa(x.refused-1)))
	}
	c.info("task refused", fields...)
	x.refused = 0
}

// refuseTask ends a task that was never started.
func (c *Core) refuseTask(x *acceptance, wish api.Task, fault *fault) {
	fw := x.session.framework
	if x.refused++; x.refused == 1 {
		x.firstRefused, x.firstFault = wish.ID, fault
	}
	c.tellStatus(fw, api.Status{Framework: fw.id, Task: wish.ID, Agent: x.agent.id, Executor: wish.ExecutorID(),
		State: fault.state, Reason: fault.reason, Message: fault.message, Source: api.MoverMaster, At: c.now})
}
