package core

import (
	"errors"
	"fmt"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/words"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/core/life"
	"github.com/tenderhq/tender/master/registry"
)

// This file is about agents that are away. The leader first waits for them, then they are a TOMBSTONE, then overdue,
// then gone. After a failover all agents are away, and roles under a limit wait for them (see hold).

// declareDead makes a silent agent a TOMBSTONE. Its tasks become UNREACHABLE; they may come back with the agent.
func (r *agents) declareDead(a *agent) {
	a.enter(life.Tombstone)
	a.gone = "silent for " + r.config.TombstoneAfter.String() + ": " + a.gone
	for _, t := range a.sortedTasks() {
		r.unreachable(a, t)
	}
	r.markAcceptsLost(a)
	r.lost(a, false, a.gone)
	r.executors.clearExecutors(a)
	r.hold.settleHold(a)
	r.standing.restate(a)
	r.answers.answerQuestions(a)
	r.awaitReturn(a)
}

// unreachable gives the task's resources back and tells its framework.
func (r *agents) unreachable(a *agent, t *task) {
	r.tasks.releaseTask(t)
	switch {
	case t.duplicate, t.framework.removed:
		r.tasks.forgetTask(t)
	case t.status.State.Terminal(): // its end is known, and only waits to be acknowledged
	default:
		r.tasks.moveTask(t, api.Status{State: api.TaskUnreachable, Reason: api.ReasonAgentDisconnected,
			Message: "agent " + string(a.id) + " is " + a.gone})
		r.answers.tellTask(t, api.ReasonNone)
	}
}

// endAgent ends an agent that was marked gone or removed: neither it nor its tasks come back.
func (r *agents) endAgent(a *agent, why string) {
	if l := a.link; l != nil {
		r.dropLink(a, why)
		r.emit(ToAgent{Conn: l.conn, Session: a.session, Event: protocol.AgentGone{Why: why}})
		r.emit(CloseAgent{Conn: l.conn, Err: api.E("agent.session", api.Removed, a.id, errors.New(why))})
	}
	r.deadlines.Clear(a.clock)
	r.admitSuccessor(a) // the waiting stream is told the same
	a.enter(life.Tombstone)
	a.gone = why
	for _, t := range a.sortedTasks() {
		r.goneByOperator(a, t, why)
	}
	r.markAcceptsLost(a)
	r.lost(a, true, why)
	r.executors.clearExecutors(a)
	r.hold.settleHold(a)
	r.standing.restate(a)
	r.answers.answerQuestions(a)
}

func (r *agents) goneByOperator(a *agent, t *task, why string) {
	r.tasks.releaseTask(t)
	if !t.duplicate {
		if !t.status.State.Terminal() { // an end that is known stays; the framework may not have been told of it
			r.tasks.moveTask(t, api.Status{State: api.TaskGoneByOperator, Reason: api.ReasonAgentGone, Message: "agent " + string(a.id) + ": " + why})
		}
		r.tasks.tellStatus(t.framework, t.latest())
	}
	r.tasks.forgetTask(t)
}

// markAcceptsLost marks the agent's accepts that wait for the registry. The policy is about to forget the agent, and
// with it what these accepts hold.
func (r *agents) markAcceptsLost(a *agent) {
	for _, x := range a.accepts {
		x.lost = true
	}
}

// lost tells the frameworks that have tasks or executors on the agent and, if it never comes back, those that wait for
// it: for a volume there, for example.
func (r *agents) lost(a *agent, gone bool, why string) {
	concerned := make(map[api.FrameworkID]*framework)
	for _, t := range a.tasks { // order: irrelevant because it fills a map
		concerned[t.framework.id] = t.framework
	}
	for _, x := range a.executors { // order: irrelevant because it fills a map
		concerned[x.framework.id] = x.framework
	}
	if gone {
		for id, fw := range r.frameworkByID { // order: irrelevant because it fills a map
			if fw.wants.Awaits(a.id) {
				concerned[id] = fw
			}
		}
	}
	for _, id := range sortedKeys(concerned) {
		r.tell(concerned[id], protocol.AgentLost{Agent: a.id, Gone: gone, Why: why})
	}
}

// goneAfter returns for how long the agent may be a TOMBSTONE before it is marked gone; negative = forever.
func (r *agents) goneAfter(a *agent) time.Duration {
	for _, class := range r.config.GoneAfterOf {
		if a.info.Has(class.Attribute, class.Value) {
			return class.After
		}
	}
	return r.config.GoneAfter
}

// awaitReturn starts the time after which a TOMBSTONE is marked gone, or stops it if that is never to happen.
func (r *agents) awaitReturn(a *agent) {
	if after := r.goneAfter(a); after > 0 {
		r.deadlines.Set(a.clock, r.now.Add(after))
	} else {
		r.deadlines.Clear(a.clock)
	}
}

// giveUp puts an agent into the queue of those that wait to be marked gone.
func (r *agents) giveUp(a *agent) {
	if a.phase != life.Overdue {
		a.enter(life.Overdue)
		r.overdue.Add(a.id)
		r.noteAgent(a, change.Figures, "")
	}
	r.markOverdue()
}

// markOverdue marks the next agent of that queue gone, when it is time.
func (r *agents) markOverdue() {
	turn := r.overdue.Next(r.now, r.isOverdue, r.countAway)
	if turn.Warn != "" {
		r.warn("agents are not marked gone", field("why", turn.Warn), field("first", turn.First))
	}
	if a := r.agentByID[turn.GiveUp]; a != nil {
		a.enter(life.Tombstone)
		why := "TOMBSTONE for " + r.goneAfter(a).String() + " (gone-after)"
		r.warn("agent is given up", field("agent", a.id), field("why", why))
		r.proposeEnd(a, registry.MarkAgent{ID: a.id, Saw: r.registry.Agents[a.id].MarksVersion, Set: api.MarkGone, Why: why})
	}
	if turn.Again.IsZero() {
		r.deadlines.Clear(r.goneTurn)
	} else {
		r.deadlines.Set(r.goneTurn, turn.Again)
	}
}

// proposeEnd asks the quorum to end an agent: to mark it gone, or to remove it. Until the registry has answered, the
// agent's return goes through the registry too, behind this change, so that it does not come back to be ended at once.
func (r *agents) proposeEnd(a *agent, change registry.Change, then ...follows) {
	a.pending++
	r.proposals.propose(change, append(then, endAgent{a})...)
}

// endAnswered continues when the registry has answered. An agent that the leader had given up, and whose marks had
// changed since, waits again to be marked gone.
func (r *agents) endAnswered(a *agent, result registry.Result) {
	a.pending--
	if result.Err != nil && a.phase == life.Tombstone && a.link == nil && r.agentByID[a.id] == a {
		r.awaitReturn(a)
	}
}

// isOverdue reports whether the agent waits to be marked gone.
func (r *agents) isOverdue(id api.AgentID) bool {
	a := r.agentByID[id]
	return a != nil && a.phase == life.Overdue
}

// countAway counts the agents that are away, and all agents; neither count includes those that are marked gone. An
// agent that was drained and then left did so on purpose, so it does not count as away.
func (r *agents) countAway() (away, all int) {
	for _, a := range r.agentByID { // order: irrelevant because it counts
		marks := r.marks(a)
		if marks.Has(api.MarkGone) {
			continue
		}
		all++
		if a.link == nil && !marks.Has(api.MarkDrained) {
			away++
		}
	}
	return away, all
}

// hold makes roles under a limit wait after a failover, until the agents have reported what runs (R20). It knows for the
// whole term which agents of earlier terms have yet to do so (R75).
type hold struct {
	*base
	awaited  map[api.AgentID]bool // agents that have not reported, and may at any moment
	silent   map[api.AgentID]bool // those of them that were taken for dead instead
	deadline *deadline
}

// await notes an agent of the registry that has yet to report.
func (r *hold) await(id api.AgentID) { r.awaited[id] = true }

// beginHold begins the hold, if any agent has not reported yet.
func (r *hold) beginHold() {
	if len(r.awaited) == 0 {
		return
	}
	r.policy.Hold(true)
	r.deadlines.Set(r.deadline, r.now.Add(r.config.RecoveryHold))
}

// holdDue ends the hold when its time is over, although some agents are not back.
func (r *hold) holdDue() {
	r.endHold(fmt.Sprintf("after %v the leader still missed %s", r.config.RecoveryHold, words.Count(len(r.awaited), "agent")))
}

// settleHold notes that the hold need no longer wait for this agent: it has reported, or is taken for dead, or has ended.
func (r *hold) settleHold(a *agent) {
	awaited := r.awaited[a.id]
	if awaited || r.silent[a.id] {
		delete(r.awaited, a.id)
		delete(r.silent, a.id)
		if a.phase.Dead() && r.agentByID[a.id] == a && !r.marks(a).Has(api.MarkGone) {
			r.silent[a.id] = true
		}
	}
	if awaited && len(r.awaited) == 0 && r.deadline.IsSet() {
		r.endHold("all agents have reported")
	}
}

func (r *hold) endHold(why string) {
	r.deadlines.Clear(r.deadline)
	r.policy.Hold(false)
	r.info("recovery hold ended", Field{"why", why})
}

// holding reports whether the hold is in force.
func (r *hold) holding() bool { return r.deadline.IsSet() }
