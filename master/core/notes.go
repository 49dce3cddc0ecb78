package core

import (
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/registry"
)

// This file notes what changes, for those who watch the cluster and for its history. A room notes a change where it
// decides it; a change that leaves nothing but other figures in a list is noted as change.Figures. (Protocol rule R68.)

// noted is what has changed in the current event, and who caused the event.
type noted struct {
	changes []change.Record // reused by the next event
	by      change.Actor
}

// Changes returns what the last Step, Allocate or New has changed, in order. The slice is used again by the next call
// of Step or Allocate.
func (c *Core) Changes() []change.Record { return c.changes }

// changesKeptMax is how many changes the memory of an event may hold for the next event to use again. A framework that comes
// back has all its tasks noted at once.
const changesKeptMax = 1024

// forgetChanges is called before the next event.
func (b *base) forgetChanges() {
	if cap(b.changes) > changesKeptMax {
		b.changes = nil
	}
	b.changes = b.changes[:0]
}

// note notes a change. Whoever caused the current event has caused it, unless the record says something else.
func (b *base) note(r change.Record) {
	r.At = b.now
	if r.By == (change.Actor{}) {
		r.By = b.by
	}
	b.changes = append(b.changes, r)
}

func (b *base) noteAgent(a *agent, what change.What, why string) {
	noted := change.Record{Kind: change.Agent, What: what, Agent: a.id, Why: why}
	switch what {
	case change.Admitted, change.Registered, change.Removed:
		noted.Set = a.info
	}
	b.note(noted)
}

func (b *base) noteFramework(fw *framework, what change.What, why string) {
	noted := change.Record{Kind: change.Framework, What: what, Framework: fw.id, Why: why}
	switch what {
	case change.Admitted, change.Updated, change.Removed:
		noted.Set = fw.info
	}
	b.note(noted)
}

// noteTask notes a change of a task. Of a second launch of the same ID nobody is told, so only figures have changed.
func (b *base) noteTask(t *task, what change.What, why string, reason api.Reason) {
	if t.duplicate {
		what = change.Figures
	}
	b.note(change.Record{
		Kind: change.Task, What: what, Agent: t.agent.id, Framework: t.ref.Framework, Task: t.ref.Task, Role: t.role,
		Owner: t.task.Owner, Job: t.task.Labels[api.JobLabel], Why: why, Reason: reason,
	})
}

// noteStatus notes the status that a task has now.
func (b *base) noteStatus(t *task) {
	b.noteTask(t, change.StateOfTask(t.status.State), t.latest().Message, t.status.Reason)
}

// noteOffer notes a change of an offer, whose end has a decision.
func (b *base) noteOffer(o *offer, what change.What) {
	b.note(change.Record{Kind: change.Offer, What: what, Name: string(o.id), Agent: o.agent.id, Framework: o.framework.id, Role: o.role})
}

func (b *base) noteExecutor(x *executor, what change.What, why string) {
	b.note(change.Record{Kind: change.Executor, What: what, Name: string(x.ref.Executor), Agent: x.agent.id, Framework: x.ref.Framework, Role: x.role, Why: why})
}

func (b *base) noteVolume(agent api.AgentID, volume api.VolumeID, what change.What, why string) {
	b.note(change.Record{Kind: change.Volume, What: what, Name: string(volume), Agent: agent, Why: why})
}

// noteUntold notes that a task, which only its framework has named, may be shown from now on, or is not shown any more.
func (b *base) noteUntold(framework api.FrameworkID, task api.TaskID, agent api.AgentID) {
	b.note(change.Record{Kind: change.Task, Framework: framework, Task: task, Agent: agent})
}

// actorOf returns who has caused an event.
func (c *Core) actorOf(what Happening) change.Actor {
	switch what := what.(type) {
	case SchedulerCalled:
		if s := c.sessionByConn[what.Conn]; s != nil && s.framework != nil {
			return change.Actor{Kind: "framework", Name: string(s.framework.id)}
		}
	case SchedulerOpened:
		return change.Actor{Kind: "principal", Name: what.By.Who}
	case AgentCalled:
		if l := c.agents.links[what.Conn]; l != nil && l.agent != nil {
			return change.Actor{Kind: "agent", Name: string(l.agent.id)}
		}
	case Requested:
		return operator(what.Who, what.By)
	default: // the leader decides it
	}
	return change.Actor{}
}

// operator returns who has asked for something: as the shell knows the caller, or the principal.
func operator(who string, by rights.Scope) change.Actor {
	switch {
	case who != "":
		return change.Actor{Name: who}
	case by.Who != "":
		return change.Actor{Kind: "principal", Name: by.Who}
	}
	return change.Actor{Name: "anybody"}
}

// noteKept notes a change that the registry keeps and that no room follows. The others are noted where they are
// followed.
func (c *Core) noteKept(kept registry.OnlyKept) {
	switch kept := kept.(type) {
	case registry.SetSecret:
		c.note(change.Record{Kind: change.Secret, What: change.Set, Name: string(kept.ID), Role: kept.ID.Role()})
	case registry.RemoveSecret:
		c.note(change.Record{Kind: change.Secret, What: change.Removed, Name: string(kept.ID), Role: kept.ID.Role()})
	case registry.CreateToken:
		c.note(change.Record{Kind: change.Token, What: change.Created, Name: kept.Token.ID, By: change.Actor{Name: kept.Token.By}})
	case registry.UseToken:
		c.note(change.Record{Kind: change.Token, What: change.Used, Name: kept.ID})
	case registry.RevokeToken:
		c.note(change.Record{Kind: change.Token, What: change.Revoked, Name: kept.ID})
	case registry.RotateAuthority:
		c.note(change.Record{Kind: change.Authority, What: change.Rotated, Name: kept.Digest})
	default: // nobody is told of the others; TestEveryCommandIsNoted names them, and each new one until it says so
	}
}
