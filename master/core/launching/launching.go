// Package launching checks whether a task can be started with what is left of the offers that name it, and what it
// takes of them. It knows neither the agent nor other reasons against a launch.
package launching

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/tenderhq/tender/api"
)

// Fault says why a task can't be started.
type Fault struct {
	State   api.TaskState
	Reason  api.Reason
	Message string
}

// Dropped returns a fault that is not the task's own: the same task may be launched again.
func Dropped(reason api.Reason, why string) *Fault { return &Fault{api.TaskDropped, reason, why} }

// Refused returns a fault of the task itself, for which it would be refused again.
func Refused(reason api.Reason, why string) *Fault { return &Fault{api.TaskError, reason, why} }

// Invalid returns a fault in the description of the task.
func Invalid(format string, args ...any) *Fault {
	return Refused(api.ReasonTaskInvalid, fmt.Sprintf(format, args...))
}

// Plan says what a launch takes from the offers.
type Plan struct {
	Task     api.Resources // as carved out of the offers, with their labels
	Executor api.Resources // zero when the executor runs already
	Starts   bool          // the launch starts the executor
	Left     api.Resources
}

// Situation is what a task is checked against.
type Situation struct {
	Framework api.Framework
	Agent     api.AgentID
	Left      api.Resources // what is left of the offers
	Running   *api.Executor // the executor that would run the task; nil when it does not run on the agent yet
	First     *api.Task     // the first task of the same group; nil when the task is that one, or in no group
}

// Carve takes the task's resources out of the offers. It also takes those of the task's executor, unless that runs
// already or an earlier task of the same group has brought it along.
func (s Situation) Carve(wish api.Task) (Plan, *Fault) {
	plan := Plan{Starts: true}
	var executor api.Resources
	switch {
	case s.Running != nil && wish.Executor != nil && !SameExecutor(*s.Running, *wish.Executor):
		return plan, Dropped(api.ReasonInvalidOffers, fmt.Sprintf("executor %s runs on agent %s by another description; "+
			"launch elsewhere, or here when that one has ended, or give the new one an ID of its own", wish.Executor.ID, s.Agent))
	case s.First != nil && wish.Executor != nil && !SameExecutor(*s.First.Executor, *wish.Executor):
		return plan, Invalid("the group's tasks %s and %s describe executor %s differently; a group has one executor",
			s.First.ID, wish.ID, wish.Executor.ID)
	case s.Running != nil || s.First != nil:
		plan.Starts = false
	case wish.Executor != nil:
		executor = wish.Executor.Resources
	}
	var ok bool
	if plan.Task, plan.Left, ok = s.Left.Carve(wish.Resources); !ok {
		return plan, Invalid("the task asks for %v, but of the offers only %v is left", wish.Resources, s.Left)
	}
	if plan.Executor, plan.Left, ok = plan.Left.Carve(executor); !ok {
		return plan, Invalid("the task and its executor ask for %v and %v, but of the offers only %v is left", wish.Resources, executor, s.Left)
	}
	if f := MessageFault(s.Framework, api.TaskBytesMax, plan); f != nil {
		return plan, f
	}
	if counts(wish.Resources, plan.Task) || counts(executor, plan.Executor) {
		return plan, Invalid("the task asks for a number of ports, which only a demand may; name those of the offer that it takes, as in ports:[31000-31001]")
	}
	return plan, nil
}

// MessageFault returns a fault when the launch does not fit in a message (R4, R34), otherwise nil. A launch carries the
// whole description of the framework, and what it takes of the offers may consist of many ranges. The fault concerns
// only the tasks of this launch. The argument tasks is the most bytes that their descriptions take.
func MessageFault(info api.Framework, tasks int, plans ...Plan) *Fault {
	const beside, each = 4096, 1024 // beside: for the term; each: for numbers, role and receipt
	bytes := tasks + info.Bytes() + beside
	for i := range plans {
		bytes += plans[i].Task.Bytes() + plans[i].Executor.Bytes() + each
	}
	if bytes <= api.MessageBytesMax {
		return nil
	}
	return Dropped(api.ReasonTaskInvalid, fmt.Sprintf(
		"the launch fits no message: the framework says %d bytes of itself, with labels and endpoints; give it fewer", info.Bytes()))
}

// counts reports whether the task asked for a number of ports without naming them. Only a demand may do so.
func counts(ask, taken api.Resources) bool {
	for _, item := range taken.Items() {
		if len(item.Ranges) > 0 && len(ask.RangesOf(item.Name)) == 0 {
			return true
		}
	}
	return false
}

// SameExecutor reports whether two descriptions of an executor are equal.
func SameExecutor(a, b api.Executor) bool {
	return a.ID == b.ID && SameCommand(a.Command, b.Command) && a.Resources.Equal(b.Resources) && bytes.Equal(a.Data, b.Data) &&
		a.ShutdownGrace == b.ShutdownGrace && maps.Equal(a.Labels, b.Labels)
}

// SameCommand reports whether two commands are equal. Files with the same checksum are.
func SameCommand(a, b api.Command) bool {
	return slices.Equal(a.Argv, b.Argv) && a.Shell == b.Shell && maps.Equal(a.Env, b.Env) && a.User == b.User && a.Dir == b.Dir &&
		slices.EqualFunc(a.URIs, b.URIs, sameURI)
}

// sameURI compares two files. Files with the same checksum are the same wherever they come from, because a scheduler
// that was restarted serves its executor at another address.
func sameURI(a, b api.URI) bool {
	if a.SHA256 != "" {
		a.Source = b.Source
	}
	return a == b
}
