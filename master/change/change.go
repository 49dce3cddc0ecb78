// Package change has what changes in a cluster, as compact records. The leader's core makes one where something is
// decided; sentences and messages are made of it only when somebody wants to know. A record holds no pointer into the
// core, so it can be kept.
package change

import (
	"fmt"
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

// Row names a thing that changes. Where its name has two parts, as FRAMEWORK/TASK in Event.name, Within is the second.
type Row struct {
	Kind         Kind
	Name, Within string
}

// Of returns what the record is about.
func (r *Record) Of() Row {
	of := Row{Kind: r.Kind, Name: r.Name}
	switch r.Kind {
	case Task:
		of.Name, of.Within = string(r.Framework), string(r.Task)
	case Executor:
		of.Name, of.Within = string(r.Framework), r.Name
	case Volume:
		of.Name, of.Within = string(r.Agent), r.Name
	case Agent, Reservation, Maintenance:
		of.Name = string(r.Agent)
	case Framework:
		of.Name = string(r.Framework)
	case Role:
		of.Name = string(r.Role)
	case Job:
		of.Name = r.Job
	}
	return of
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

// Touches calls touch with those rows of lists that the change may have made out of date: agents, frameworks, tasks and
// offers.
func (r *Record) Touches(touch func(Row)) {
	if r.Agent != "" {
		touch(Row{Kind: Agent, Name: string(r.Agent)})
	}
	if r.Framework != "" {
		touch(Row{Kind: Framework, Name: string(r.Framework)})
	}
	if r.Task != "" {
		touch(Row{Kind: Task, Name: string(r.Framework), Within: string(r.Task)})
	}
	if r.Kind == Offer {
		touch(Row{Kind: Offer, Name: r.Name})
	}
}
