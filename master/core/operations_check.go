package core

import (
	"fmt"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/rights"
	"github.com/tenderhq/tender/master/core/secrets"
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

// planLaunch judges a task against what is left of the offers. First is the first task of its group, if that stands
// before it: nil for others.
func (r *operations) planLaunch(x *acceptance, wish api.Task, first *api.Task) (launchPlan, *fault) {
	if f := r.agentFault(x.agent); f != nil {
		return launchPlan{}, f
	}
	if x.aboveLimit != "" {
		return launchPlan{}, &fault{api.TaskDropped, api.ReasonInvalidOffers, x.aboveLimit}
	}
	if err := x.session.framework.share.RoomForTask(); err != nil {
		return launchPlan{}, &fault{api.TaskDropped, api.ReasonInvalidOffers, err.Error()}
	}
	if err := wish.Check(); err != nil { // as the agent judges it, by the same function
		return launchPlan{}, invalid("%v", err)
	}
	if f := x.userFault(wish); f != nil {
		return launchPlan{}, f
	}
	if f := r.secretsFault(x, wish); f != nil {
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
	return r.carve(x, wish, first)
}

// userFault: the scheduler's principal may not run tasks as the users that the task asks for.
func (x *acceptance) userFault(wish api.Task) *fault {
	by, info := x.session.by, x.session.framework.info
	object := rights.Object{Framework: info.ID, Name: info.Name, Principal: info.Principal, Role: x.role, Agent: x.agent.id, Hostname: x.agent.info.Hostname}
	commands := []*api.Command{wish.Command}
	if wish.Executor != nil {
		commands = append(commands, &wish.Executor.Command)
	}
	for _, command := range commands {
		if command != nil && command.User != "" && !by.MayRunAs(object, command.User) {
			grant := rights.Grant{Verb: rights.Run, Role: x.role, User: command.User}
			return &fault{api.TaskError, api.ReasonTaskUnauthorized, fmt.Sprintf(
				"%s may not run tasks as %s in role %s; an operator gives the grant: tender grant %s %s", by.Who, command.User, x.role, by.Who, grant)}
		}
	}
	return nil
}

// secretsFault: the task names secrets that it may not have, or that are not there (R48).
func (r *operations) secretsFault(x *acceptance, wish api.Task) *fault {
	if len(wish.Secrets) == 0 {
		return nil
	}
	if why := secrets.Forbidden(x.session.framework.info, wish.Secrets); why != "" {
		return &fault{api.TaskError, api.ReasonTaskUnauthorized, why}
	}
	if why := secrets.Missing(r.registry, r.keepsSecrets(), wish.Secrets); why != "" {
		return &fault{api.TaskError, api.ReasonSecretUnavailable, why}
	}
	if x.agent.phase.Alive() && !x.agent.can.secrets {
		why := fmt.Sprintf("agent %s is of a version that gives tasks no secrets; upgrade it", x.agent.id)
		return &fault{api.TaskDropped, api.ReasonSecretUnavailable, why}
	}
	return nil
}

// agentFault: the agent can't take launches just now.
func (r *operations) agentFault(a *agent) *fault {
	switch marks := r.marks(a); {
	case r.agentByID[a.id] != a:
		return &fault{api.TaskDropped, api.ReasonAgentRemoved, "agent " + string(a.id) + " was removed"}
	case marks.Has(api.MarkGone):
		return &fault{api.TaskDropped, api.ReasonAgentGone, "agent " + string(a.id) + " is gone"}
	case marks.Has(api.MarkDraining):
		return &fault{api.TaskDropped, api.ReasonAgentDraining, "agent " + string(a.id) + " is draining"}
	case !a.phase.Alive():
		return &fault{api.TaskDropped, api.ReasonAgentDisconnected, "agent " + string(a.id) + " is " + a.state.String() + ": " + a.why}
	}
	return nil
}

// carve takes the task's resources, and its executor's when that one is not there yet: the first task of a group brings
// it along for the others.
func (r *operations) carve(x *acceptance, wish api.Task, first *api.Task) (launchPlan, *fault) {
	plan := launchPlan{starts: true}
	var executor api.Resources
	running := x.session.framework.executors[executorKey{x.agent.id, wish.ExecutorID()}]
	switch {
	case running != nil && wish.Executor != nil && !sameExecutor(running.info, *wish.Executor):
		return plan, &fault{api.TaskDropped, api.ReasonInvalidOffers, fmt.Sprintf("executor %s runs on agent %s by another description; "+
			"launch elsewhere, or here when that one has ended, or give the new one an ID of its own", running.ref.Executor, x.agent.id)}
	case first != nil && wish.Executor != nil && !sameExecutor(*first.Executor, *wish.Executor):
		return plan, invalid("the group's tasks %s and %s describe executor %s differently; a group has one executor",
			first.ID, wish.ID, wish.Executor.ID)
	case running != nil || first != nil:
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
	if f := messageFault(x.session.framework.info, api.TaskBytesMax, plan); f != nil {
		return plan, f
	}
	if counts(wish.Resources, plan.task) || counts(executor, plan.executor) {
		return plan, invalid("the task asks for a number of ports, which only a demand may; name those of the offer that it takes, as in ports:[31000-31001]")
	}
	return plan, nil
}

// messageFault says that the launch fits no message (R4, R34): it carries the whole description of the framework, and
// an older master may have accepted a longer one than is accepted today. Only these tasks end because of it; bytes is
// what they take at most.
func messageFault(info api.Framework, tasks int, plans ...launchPlan) *fault {
	const beside, each = 4096, 1024 // beside: the term. each: numbers, the role, the receipt
	bytes := tasks + info.Bytes() + beside
	for i := range plans {
		bytes += plans[i].task.Bytes() + plans[i].executor.Bytes() + each
	}
	if bytes <= api.MessageBytesMax {
		return nil
	}
	return &fault{api.TaskDropped, api.ReasonTaskInvalid, fmt.Sprintf(
		"the launch fits no message: the framework says %d bytes of itself, with labels and endpoints; give it fewer", info.Bytes())}
}

// counts reports whether an ask for any free ports was met by ports that it does not name.
func counts(ask, taken api.Resources) bool {
	for _, item := range taken.Items() {
		if len(item.Ranges) > 0 && len(ask.RangesOf(item.Name)) == 0 {
			return true
		}
	}
	return false
}
