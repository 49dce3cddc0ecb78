package core

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/master/view"
)

// kills carries out what schedulers and operators want killed. A kill is kept with its task, is sent to the agent until
// the task ends, and is answered to the operators who wait for it.
type kills struct {
	*base
	proposals *proposals
}

// kill says that a task is to end. It is sent again when the agent comes back.
type kill struct {
	graces  protocol.KillGraces
	reason  api.Reason
	waiters []RequestID // operators who wait until the agent has it
}

// killCalled handles a scheduler's kill. The SDK repeats the kill in every session until the task is terminal or
// unknown (R12).
func (r *tasks) killCalled(s *session, number uint64, call protocol.Kill) {
	const op = "framework.kill"
	t := s.framework.tasks[call.Task]
	// The accept that launches the task waits for the registry, so the task may yet be launched.
	if x := s.waits[call.Task]; t == nil && x != nil {
		graces := x.kills[call.Task]
		graces.Ask(call.Grace)
		x.kills[call.Task] = graces
		return
	}
	if t == nil {
		if !r.answers.mayAsk(s, number, op, 1) {
			return
		}
		r.answers.owe(s, question{task: call.Task, agent: call.Agent, reason: api.ReasonReconciliation})
		return
	}
	if t.status.State.Terminal() { // the scheduler has not heard of its end yet
		if r.answers.mayAsk(s, number, op, 1) {
			r.answers.tellTask(t, api.ReasonNone)
		}
		return
	}
	r.info("task kill", field("task", t.ref.String()), field("agent", t.agent.id), field("reason", api.ReasonKilledByFramework.String()))
	r.kills.wishKill(t, call.Grace, api.ReasonKilledByFramework)
}

// wishKill records a kill and sends it if the agent has reported. A further kill may shorten the grace; the reason of
// the first one stays.
func (r *kills) wishKill(t *task, grace time.Duration, reason api.Reason) {
	if t.kill == nil {
		t.kill = &kill{reason: reason}
	}
	t.kill.graces.Ask(grace)
	r.noteTask(t, change.KillAsked, "", t.kill.reason)
	r.sendKill(t, grace)
}

func (r *kills) sendKill(t *task, graces ...time.Duration) {
	if !t.agent.phase.Reported() {
		return
	}
	for _, grace := range graces {
		r.tellAgent(t.agent, protocol.KillTask{TaskRef: t.ref, Grace: grace, Reason: t.kill.reason})
	}
}

// resendKills sends the kills again that were asked for while the agent was away.
func (r *kills) resendKills(a *agent) {
	for _, t := range a.sortedTasks() {
		if t.kill != nil && !t.status.State.Terminal() {
			r.sendKill(t, t.kill.graces.Each()...)
		}
	}
}

// keepKill has the registry keep an operator's kill until the agent is back and has it, whoever leads by then (R12).
func (r *kills) keepKill(agent api.AgentID, ref api.TaskRef, grace time.Duration, waiting ...RequestID) {
	r.proposals.propose(registry.KeepKill{ID: agent, Task: ref, Grace: grace}, keepKill{ref, waiting})
}

// kept answers the operators whose kill the registry keeps.
func (r *kills) kept(k keepKill, result registry.Result) {
	for _, id := range k.waiting {
		if result.Err != nil {
			r.emit(Reply{ID: id, Err: result.Err})
			continue
		}
		r.emit(Reply{ID: id, Answer: KillTaskAnswer{Task: k.task, Pending: true}})
	}
}

// keepWaiting keeps a kill for which operators wait, because its agent has left before it has taken the kill.
func (r *kills) keepWaiting(t *task) {
	if t.kill == nil || len(t.kill.waiters) == 0 {
		return
	}
	waiting := t.kill.waiters
	t.kill.waiters = nil
	for i, grace := range t.kill.graces.Each() {
		if i > 0 {
			waiting = nil // they are answered once
		}
		r.keepKill(t.agent.id, t.ref, grace, waiting...)
	}
}

// killKept carries out a kill that the registry keeps from now on, if its agent is back already.
func (r *kills) killKept(kept registry.KeepKill) {
	r.note(change.Record{
		Kind: change.Task, What: change.KillAsked, Framework: kept.Task.Framework, Task: kept.Task.Task, Agent: kept.ID,
		Reason: api.ReasonKilledByOperator, Why: "its agent is away and is told when it is back",
	})
	if a := r.agentByID[kept.ID]; a != nil && a.phase.Reported() {
		r.takeKept(a)
		r.resendKills(a)
	}
}

// takeKept takes over the kills that the registry keeps for an agent that has reported. Those of tasks that it does not
// have, or that have ended, are over.
func (r *kills) takeKept(a *agent) {
	var over []api.TaskRef
	for _, kept := range r.registry.Agents[a.id].Kills {
		t := a.tasks[kept.Task]
		if t == nil || t.status.State.Terminal() {
			over = append(over, kept.Task)
			continue
		}
		if t.kill == nil {
			t.kill = &kill{reason: api.ReasonKilledByOperator}
		}
		t.kill.graces.Ask(kept.Grace)
	}
	if len(over) > 0 {
		r.proposals.propose(registry.ForgetKills{ID: a.id, Tasks: over})
	}
}

// forgetKept has the registry forget the kills of a task that its agent has, or that has ended.
func (r *kills) forgetKept(t *task) {
	if slices.ContainsFunc(r.registry.Agents[t.agent.id].Kills, func(kept registry.Kill) bool { return kept.Task == t.ref }) {
		r.proposals.propose(registry.ForgetKills{ID: t.agent.id, Tasks: []api.TaskRef{t.ref}})
	}
}

// killTaken tells the operators who wait that the agent has the kill.
func (r *kills) killTaken(a *agent, taken protocol.KillTaken) {
	t := a.tasks[taken.TaskRef]
	if t == nil || t.kill == nil {
		return
	}
	r.replyKill(t, KillTaskAnswer{Task: t.ref})
	r.forgetKept(t)
}

// killOver tells the operators who wait that the task has ended, by the kill or before it.
func (r *kills) killOver(t *task) {
	r.replyKill(t, KillTaskAnswer{Task: t.ref, Already: t.status.State})
	t.kill = nil
	if t.agent.phase.Reported() { // of one that is away it is not certain
		r.forgetKept(t)
	}
}

func (r *kills) replyKill(t *task, answer KillTaskAnswer) {
	if t.kill == nil {
		return
	}
	for _, id := range t.kill.waiters {
		r.emit(Reply{ID: id, Answer: answer})
	}
	t.kill.waiters = nil
}

// waitersPerTaskMax bounds the operators who wait for one kill. One more is refused (Limit).
const waitersPerTaskMax = 1000

// KillTask kills the task that Task names: FRAMEWORK/TASK, TASK or the task's whole display name.
type KillTask struct {
	Task  string
	Grace time.Duration
}

// request handles an operator's kill. Whoever may not kill a task learns nothing of it, neither where it runs nor that it
// is there.
func (action KillTask) request(c *Core, id RequestID, by rights.Scope) *api.Error {
	const op = "task.kill"
	if action.Task == "" {
		return api.E(op, api.Invalid, "", errors.New("no task is named; write FRAMEWORK/TASK, or TASK"))
	}
	may := c.View()
	may.Sees = by
	found, err := may.FindTask(op, action.Task, view.Whole)
	switch {
	case err != nil && err.Kind == api.NotFound && !by.Covers(rights.Object{}):
		return api.E("rights", api.Denied, by.Who, fmt.Errorf("may kill no task that is called %q; "+
			"it needs the grant 'operate' or 'kill-task' on the task's role; an operator gives it: tender grant %s kill-task --role ROLE", action.Task, by.Who))
	case err != nil:
		return err
	case found.Ended != nil:
		c.emit(Reply{ID: id, Answer: KillTaskAnswer{Task: found.Ref, Already: found.Ended.Status.State}})
		return nil
	case found.Untold:
		c.info("task kill", field("task", found.Ref.String()), field("agent", found.Agent), field("reason", api.ReasonKilledByOperator.String()))
		c.kills.keepKill(found.Agent, found.Ref, action.Grace, id)
		return nil
	}
	t := c.frameworkByID[found.Ref.Framework].tasks[found.Ref.Task]
	switch {
	case t.status.State.Terminal():
		c.emit(Reply{ID: id, Answer: KillTaskAnswer{Task: t.ref, Already: t.status.State}})
		return nil
	case t.kill != nil && len(t.kill.waiters) >= waitersPerTaskMax:
		return api.E(op, api.Limit, t.ref.String(), errors.New("too many wait for this kill already"))
	}
	c.info("task kill", field("task", t.ref.String()), field("agent", t.agent.id), field("reason", api.ReasonKilledByOperator.String()))
	if !t.agent.phase.Reported() {
		c.kills.keepKill(t.agent.id, t.ref, action.Grace, id)
		return nil
	}
	c.kills.wishKill(t, action.Grace, api.ReasonKilledByOperator)
	t.kill.waiters = append(t.kill.waiters, id)
	return nil
}
