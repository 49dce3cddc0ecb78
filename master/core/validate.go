package core

import (
	"fmt"

	"github.com/tenderhq/tender/api"
)

// fault is why a task can't be started.
type fault struct {
	state   api.TaskState
	reason  api.Reason
	message string
}

func invalid(format string, args ...any) *fault {
	return &fault{api.TaskError, api.ReasonTaskInvalid, fmt.Sprintf(format, args...)}
}

// launchPlan is what a launch takes of the offers.
type launchPlan struct {
	task     api.Resources // as carved, with labels
	executor api.Resources // zero when it runs already
	starts   bool          // the executor
	left     api.Resources
}

// planLaunch judges a task against what is left of the offers.
func (c *Core) planLaunch(x *acceptance, wish api.Task) (launchPlan, *fault) {
	if f := c.agentFault(x.agent); f != nil {
		return launchPlan{}, f
	}
	if f := taskFault(wish); f != nil {
		return launchPlan{}, f
	}
	if known := x.session.framework.tasks[wish.ID]; known != nil {
		return launchPlan{}, &fault{api.TaskError, api.ReasonTaskDuplicate,
			fmt.Sprintf("task %s is %s on agent %s; an ID is never used twice", wish.ID, known.status.State, known.agent.id)}
	}
	if agent, unsettled := x.session.absent[wish.ID]; unsettled {
		why := "task %s was launched on agent %s, which is not back yet; an ID is never used twice"
		if agent == "" {
			why = "task %s may run on an agent%s that is not back yet; an ID is never used twice"
		}
		return launchPlan{}, &fault{api.TaskError, api.ReasonTaskDuplicate, fmt.Sprintf(why, wish.ID, agent)}
	}
	return c.carve(x, wish)
}

// agentFault: the agent can't take launches just now.
func (c *Core) agentFault(a *agent) *fault {
	switch marks := c.marks(a); {
	case c.agents[a.id] != a:
		return &fault{api.TaskDropped, api.ReasonAgentRemoved, "agent " + string(a.id) + " was removed"}
	case marks.Has(api.MarkGone):
		return &fault{api.TaskDropped, api.ReasonAgentGone, "agent " + string(a.id) + " is gone"}
	case marks.Has(api.MarkDraining):
		return &fault{api.TaskDropped, api.ReasonAgentDraining, "agent " + string(a.id) + " is draining"}
	case !a.alive():
		return &fault{api.TaskDropped, api.ReasonAgentDisconnected, "agent " + string(a.id) + " is " + a.state.String() + ": " + a.why}
	}
	return nil
}

// taskFault: the task can't be right, whatever is offered.
func taskFault(wish api.Task) *fault {
	if err := api.CheckID("task", string(wish.ID)); err != nil {
		return invalid("%v", err)
	}
	if size := taskBytes(wish); size > api.TaskBytesMax {
		return invalid("the task has %d bytes with its command and data, at most %d are allowed", size, api.TaskBytesMax)
	}
	if err := wish.Resources.Check(); err != nil {
		return invalid("its resources: %v", err)
	}
	if f := revocableFault(wish); f != nil {
		return f
	}
	switch {
	case wish.Resources.IsZero():
		return invalid("the task asks for no resources; it must ask for some, such as cpus:0.1")
	case len(wish.Labels) > api.LabelsMax:
		return invalid("%d labels, at most %d are allowed", len(wish.Labels), api.LabelsMax)
	case wish.KillGrace < 0:
		return invalid("kill grace %v is negative", wish.KillGrace)
	}
	if f := portsFault(wish); f != nil {
		return f
	}
	if wish.Executor == nil {
		return commandFault(wish.Command, "the task names no executor, so it needs a command")
	}
	return executorFault(*wish.Executor)
}

// revocableFault: what may be taken back at any moment stands beside what may not. A kill
// ends the whole task, so of one resource it has either; an executor must outlive its
// revoked tasks.
func revocableFault(wish api.Task) *fault {
	for _, item := range wish.Resources.Revocable().Items() {
		for _, other := range wish.Resources.Items() {
			if other.Name == item.Name && !other.Revocable {
				return invalid("the task asks for %s both firm and revocable; it can have one of them", item.Name)
			}
		}
	}
	if wish.Executor != nil && wish.Executor.Resources.HasRevocable() {
		return invalid("executor %s asks for %v; only tasks can be revoked", wish.Executor.ID, wish.Executor.Resources.Revocable())
	}
	return nil
}

func portsFault(wish api.Task) *fault {
	ports := wish.Resources.RangesOf("ports")
	for _, name := range sortedKeys(wish.Ports) {
		number := uint64(wish.Ports[name])
		if !ports.Contains(api.Ranges{{Begin: number, End: number}}) {
			return invalid("port %s is %d, which is not among the task's ports:%v", name, number, ports)
		}
	}
	return nil
}

func commandFault(command *api.Command, missing string) *fault {
	switch {
	case command == nil:
		return invalid("%s", missing)
	case len(command.Argv) == 0 && command.Shell == "":
		return invalid("the command is empty; give argv or a line for the shell")
	case len(command.Argv) > 0 && command.Shell != "":
		return invalid("the command has both argv and a line for the shell; give one of them")
	case len(command.Argv) > 0 && command.Argv[0] == "":
		return invalid("the command's program is empty")
	}
	return nil
}

func executorFault(executor api.Executor) *fault {
	if err := api.CheckID("executor", string(executor.ID)); err != nil {
		return invalid("%v", err)
	}
	if executor.ID == api.CommandExecutor {
		return invalid("executor %q is built in; leave the executor out and give a command, or choose another ID", executor.ID)
	}
	if err := executor.Resources.Check(); err != nil {
		return invalid("the executor's resources: %v", err)
	}
	if executor.ShutdownGrace < 0 {
		return invalid("the executor's shutdown grace %v is negative", executor.ShutdownGrace)
	}
	return commandFault(&executor.Command, "")
}

// carve takes the task's resources, and its executor's when that one is not there yet.
func (c *Core) carve(x *acceptance, wish api.Task) (launchPlan, *fault) {
	plan := launchPlan{starts: true}
	var executor api.Resources
	running := x.session.framework.executors[executorKey{x.agent.id, wish.ExecutorID()}]
	switch {
	case running != nil && wish.Executor != nil && !sameExecutor(running.info, *wish.Executor):
		return plan, invalid("executor %s runs on agent %s and was described differently; one ID, one description", running.ref.Executor, x.agent.id)
	case running != nil:
		plan.starts = false
	case wish.Executor != nil:
		executor = wish.Executor.Resources
	}
	var ok bool
	if plan.task, plan.left, ok = x.left.Carve(wish.Resources); !ok {
		return plan, invalid("the task asks for %v, but of the offers only %v is left", wish.Resources, x.left)
	}
	if plan.executor, plan.left, ok = plan.left.Carve(executor); !ok {
		return plan, invalid("the task and its executor ask for %v and %v, but of the offers only %v is left", wish.Resources, executor, x.left)
	}
	if counts(wish.Resources, plan.task) || counts(executor, plan.executor) {
		return plan, invalid("the task asks for a number of ports, which only a demand may; name those of the offer that it takes, as in ports:[31000-31001]")
	}
	return plan, nil
}

// counts reports whether an ask for a number of ports has become some that it does not name.
func counts(ask, taken api.Resources) bool {
	for _, item := range taken.Items() {
		if len(item.Ranges) > 0 && len(ask.RangesOf(item.Name)) == 0 {
			return true
		}
	}
	return false
}

// taskBytes is about the size of the task in a message.
func taskBytes(wish api.Task) int {
	size := len(wish.ID) + len(wish.Name) + len(wish.Data) + mapBytes(wish.Labels)
	if wish.Command != nil {
		size += commandBytes(*wish.Command)
	}
	if wish.Executor != nil {
		size += len(wish.Executor.ID) + len(wish.Executor.Data) + mapBytes(wish.Executor.Labels) + commandBytes(wish.Executor.Command)
	}
	return size
}

func commandBytes(command api.Command) int {
	size := len(command.Shell) + mapBytes(command.Env)
	for _, arg := range command.Argv {
		size += len(arg) + 2
	}
	for _, uri := range command.URIs {
		size += len(uri.Source) + len(uri.Name) + len(uri.SHA256) + 8
	}
	return size
}

func mapBytes(m map[string]string) int {
	size := 0
	for key, value := range m { // order: irrelevant because it sums
		size += len(key) + len(value) + 6
	}
	return size
}
