// Package change has what changes in a cluster, as compact records. The leader's core makes one where something is
// decided; sentences and messages are made of it only when somebody wants to know. A record holds no pointer into the
// core, so it can be kept.
package change

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/view"
)

// Record is one change. Fields that it does not have stay empty.
type Record struct {
	At   time.Time
	Kind Kind
	// What happened; [Figures] when only something that the thing counts has changed, which is no event.
	What What
	// Name is the name of a thing that none of the fields below names, such as an offer, a role's secret or a master.
	Name string

	Agent     api.AgentID
	Framework api.FrameworkID
	Task      api.TaskID
	Role      api.Role
	Owner     string // of a task, as in api.Task
	Job       string // whose task it is

	By  Actor
	Why string // a sentence, or ""
	// Set is what was set, or what the thing was as it came, changed or went: a registry.Role, a rights.Grant, an [api.Agent]
	// or an [api.Framework]. Never edited. Nil: nothing that has fields.
	Set any
	// Routine is what a framework says of an event of its jobs; of all others the kind and the word say it.
	Routine bool
	// Heard is when a task has ended, by its agent's clock, of an end that a new leader hears from a report: a leader
	// before may have told it. Nil of all others.
	Heard *time.Time
	// Reason is that of a task's status.
	Reason api.Reason
	// Asked is what a framework has asked for in a role: all that it wants there from now on. Never edited.
	Asked []api.Shape
	// Wanted is how many tasks of its jobs a framework says that wait for resources. Never edited.
	Wanted map[string]int64
	// Decision is what became of an offer. Its sentence is made when somebody asks.
	Decision *view.Decision
}

// Actor is who or what has caused a change. The zero value is the leader. People see its kind and its name, such as
// "agent agent-1".
type Actor struct {
	Kind string // "agent", "framework", "" where Name says all
	Name string
}

// Of returns the name of what the record is about. Where that has two parts, as FRAMEWORK/TASK in Event.name, within is
// the second.
func (r *Record) Of() (name, within string) {
	switch r.Kind {
	case Task:
		return string(r.Framework), string(r.Task)
	case Executor:
		return string(r.Framework), r.Name
	case Volume:
		return string(r.Agent), r.Name
	case Agent, Reservation, Maintenance:
		return string(r.Agent), ""
	case Framework:
		return string(r.Framework), ""
	case Role:
		return string(r.Role), ""
	case Job:
		return r.Job, ""
	default:
		return r.Name, ""
	}
}

// Sentence returns why it happened, for people; "" when there is nothing to say.
func (r *Record) Sentence() string {
	if r.Decision != nil {
		return r.Decision.Words()
	}
	if r.Kind == Framework && r.What == Asked {
		return asked(r.Asked)
	}
	if r.Why == "" && r.Reason != api.ReasonNone {
		return strings.ToLower(strings.ReplaceAll(r.Reason.String(), "_", " "))
	}
	return r.Why
}

// shapesSaid is how many shapes of a demand a sentence names.
const shapesSaid = 5

// asked says what a framework wants, such as "3 x (cpus:1;mem:64)".
func asked(shapes []api.Shape) string {
	if len(shapes) == 0 {
		return "nothing more"
	}
	var said []string
	for _, shape := range shapes[:min(len(shapes), shapesSaid)] {
		text := fmt.Sprintf("%d x (%s)", shape.Count, shape.Resources)
		if shape.Constraint != "" {
			text += " where " + shape.Constraint
		}
		said = append(said, text)
	}
	if more := len(shapes) - shapesSaid; more > 0 {
		said = append(said, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(said, ", ")
}

// IsEvent reports whether something has happened, more than that figures have changed.
func (r *Record) IsEvent() bool { return r.What != Figures }

// Notable reports whether somebody may look for it later. The rest is routine: offers, and the usual life of a task.
func (r *Record) Notable() bool {
	switch r.Kind {
	case Offer:
		return r.What == AskedBack || r.What == TookBack
	case Framework:
		return r.What != Asked
	case Executor, Operation:
		return r.What == Refused
	case Job:
		return !r.Routine
	case Task:
		switch r.What {
		case Launched, Reported, What("staging"), What("starting"), What("running"), What("killing"), What("finished"), What("killed"):
			return r.Reason == api.ReasonPreempted || r.Reason == api.ReasonRevoked || r.Reason == api.ReasonKilledByOperator
		}
	}
	return true
}

// Touches returns the names of the rows of lists that the change may have made out of date: of agents, frameworks, tasks
// and offers, as [api.AgentID], [api.FrameworkID], [api.TaskRef] and [api.OfferID].
func (r *Record) Touches() iter.Seq[any] {
	return func(yield func(any) bool) {
		_ = (r.Agent == "" || yield(r.Agent)) && (r.Framework == "" || yield(r.Framework)) &&
			(r.Task == "" || yield(api.TaskRef{Framework: r.Framework, Task: r.Task})) &&
			(r.Kind != Offer || yield(api.OfferID(r.Name)))
	}
}
