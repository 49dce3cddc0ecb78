package core

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/core/life"
)

// agentQuestions are those of frameworks about tasks of an agent that is away, answered once it is back (R8).
type agentQuestions struct {
	questions   []asked
	questionsAt uint64 // how many sessions had ended when theirs were last dropped from the questions
}

// questionsPerAgentMax bounds the questions that wait for one agent; beyond it they are
// dropped, and the SDK's periodic reconciliation asks again.
const questionsPerAgentMax = 100_000

// unsettled takes a page of the tasks that the scheduler has not seen end (R8). Those
// that are known are told without asking.
func (r *sessions) unsettled(s *session, page protocol.Unsettled) {
	s.asked += len(page.Tasks)
	if s.asked > unsettledTasksMax {
		fw := s.framework
		r.emit(CloseScheduler{Conn: s.conn, Err: api.E("framework.unsettled", api.Limit, fw.id, fmt.Errorf("more than %d tasks", unsettledTasksMax))})
		r.leave(s, "it asked for too many tasks")
		return
	}
	for _, u := range page.Tasks {
		if s.framework.tasks[u.Task] == nil {
			r.answers.owe(s, question{task: u.Task, agent: u.Agent, past: seenPast(u), reason: api.ReasonReconciliation})
		}
	}
	if page.Last {
		if s.subscribe.TellLater && !s.allIn {
			r.answers.oweStart(s)
		}
		s.allIn = true
		r.answers.owes(s)
	}
}

// seenPast says that the scheduler knows the task to have gone beyond STAGING.
func seenPast(u protocol.UnsettledTask) bool {
	return u.Number > 0 || u.State != api.TaskUnspecified && u.State != api.TaskStaging
}

// reconcile answers for the named tasks, or for all that are known.
func (r *answers) reconcile(s *session, number uint64, call protocol.Reconcile) {
	if len(call.Tasks) == 0 {
		r.oweAll(s, walkTasks)
		return
	}
	if !r.mayAsk(s, number, "framework.reconcile", len(call.Tasks)) {
		return
	}
	for _, u := range call.Tasks {
		r.owe(s, question{task: u.Task, agent: u.Agent, past: seenPast(u), reason: api.ReasonReconciliation})
	}
}

// answer tells what is asked; false when there is nothing to tell, now or at all.
func (r *answers) answer(s *session, q question) bool {
	if q.operation != "" {
		return r.answerOperation(s, q.operation)
	}
	if t := s.framework.tasks[q.task]; t != nil {
		r.tell(s.framework, protocol.Update{Status: t.placed(toldStatus(t, q.reason))})
		return true
	}
	if q.known || s.waits[q.task] != nil { // its accept waits for the registry, and tells what comes of it
		return false
	}
	state, message := r.absent(s.framework.id, q)
	switch state {
	case api.TaskUnspecified:
		r.askLater(s, r.whoMayKnow(q), q)
		return false
	case api.TaskUnreachable:
		if r.agentByID[q.agent] == nil {
			s.noteLost(q.task, q.agent)
		}
		if a := r.agentByID[q.agent]; a != nil { // of another one the SDK asks again
			r.askLater(s, a, q) // its agent may come back without it
		}
	}
	r.tell(s.framework, protocol.Update{Status: api.Status{
		Framework: s.framework.id, Task: q.task, Agent: q.agent, State: state, Reason: api.ReasonReconciliation,
		Message: message, Source: api.MoverMaster, At: r.now,
	}})
	return true
}

// askLater keeps the question for the agent's return. Until then its ID is in use.
func (r *answers) askLater(s *session, a *agent, q question) {
	if _, waits := s.absent[q.task]; waits || len(s.absent) >= unsettledTasksMax {
		return
	}
	if len(a.questions) >= questionsPerAgentMax && a.questionsAt != r.dropped { // some may be of sessions that have ended
		a.questionsAt = r.dropped
		a.questions = slices.DeleteFunc(a.questions, func(q asked) bool { return r.sessionByConn[q.session.conn] != q.session })
	}
	if len(a.questions) < questionsPerAgentMax {
		a.questions = append(a.questions, asked{s, q})
		s.absent[q.task] = q.agent
	}
}

// whoMayKnow is the agent whose return brings the answer nearer: the named one, or the
// first that has not reported in this term; nil when nobody is left to ask. An agent
// that is taken for dead is not waited for.
func (r *answers) whoMayKnow(q question) *agent {
	if q.agent != "" {
		return r.agentByID[q.agent]
	}
	for len(r.returning) > 0 {
		if a := r.agentByID[r.returning[0]]; a != nil && a.account == life.AccountNone && !a.phase.Dead() {
			return a
		}
		r.returning = r.returning[1:]
	}
	return nil
}

// absent is what has become of a task that the leader does not know (R8); unspecified
// while its agent, or any that may have it, is not back.
func (r *answers) absent(framework api.FrameworkID, q question) (api.TaskState, string) {
	a := r.agentByID[q.agent]
	switch {
	case q.agent == "" && r.whoMayKnow(q) != nil:
		return api.TaskUnspecified, ""
	case q.agent == "":
		return api.TaskUnknown, "nobody knows this task: it was never launched, or its end was acknowledged"
	case a == nil && r.registry.LostAgent(q.agent):
		return api.TaskUnreachable, "agent " + string(q.agent) + " is not back since the registry was restored or recovered"
	case a == nil && r.wasAgent(q.agent):
		return api.TaskGoneByOperator, "agent " + string(q.agent) + " was removed"
	case a == nil:
		return api.TaskUnknown, "no such agent is admitted"
	case r.marks(a).Has(api.MarkGone):
		return api.TaskGoneByOperator, "agent " + string(q.agent) + " is gone"
	case a.phase.Dead():
		return api.TaskUnreachable, "agent " + string(q.agent) + " is " + a.gone
	case !a.phase.Reported():
		return api.TaskUnspecified, ""
	}
	if stub := a.stubOf(api.TaskRef{Framework: framework, Task: q.task}); stub != nil {
		return stub.Status.State, "it ended on agent " + string(q.agent) + " before: " + stub.Status.Message
	}
	if q.past || a.account == life.AccountRebooted {
		return api.TaskGone, "agent " + string(q.agent) + " does not have it any more"
	}
	return api.TaskDropped, "agent " + string(q.agent) + " never got it"
}

// stubOf is what the agent remembers of a task that has ended and whose end was settled; nil
// if it remembers nothing.
func (a *agent) stubOf(ref api.TaskRef) *protocol.TaskStub {
	for i := range slices.Backward(a.stubs) {
		if a.stubs[i].TaskRef == ref {
			return &a.stubs[i]
		}
	}
	return nil
}

// wasAgent says that the registry gave out this ID once.
func (b *base) wasAgent(id api.AgentID) bool {
	digits, minted := strings.CutPrefix(string(id), "agent-")
	n, err := strconv.ParseUint(digits, 10, 48)
	return minted && err == nil && n > 0 && n < b.registry.NextAgent
}

// answerQuestions answers what frameworks asked while the agent was away.
func (r *answers) answerQuestions(a *agent) {
	questions := a.questions
	a.questions = nil
	for _, q := range questions {
		if r.sessionByConn[q.session.conn] != q.session {
			if a.account == life.AccountNone && q.session.framework.latest == q.session && !r.marks(a).Has(api.MarkGone) {
				a.questions = append(a.questions, q) // shown to people until either is back
			}
			continue
		}
		delete(q.session.absent, q.task)
		if q.session.framework.tasks[q.task] == nil { // else it was told when it was reported
			r.owe(q.session, q.question)
		}
	}
}

// reconcileOperations owes the results of the named operations, or of all that are known.
func (r *answers) reconcileOperations(s *session, number uint64, call protocol.ReconcileOperations) {
	if len(call.Operations) == 0 {
		r.oweAll(s, walkOperations)
		return
	}
	if !r.mayAsk(s, number, "framework.operations", len(call.Operations)) {
		return
	}
	for _, id := range call.Operations {
		r.owe(s, question{operation: id})
	}
}

var errNoOperation = errors.New("no operation of this ID is known: it has changed nothing, or more than 1,000 were done since; " +
	"what a launch came to is its tasks' to say")

// answerOperation tells what became of the operation; false while it waits for the
// registry, for then it is told when that has answered.
func (r *answers) answerOperation(s *session, id api.OperationID) bool {
	if s.framework.results.Waits(id) {
		return false
	}
	result, known := s.framework.results.Find(id)
	if !known {
		result = protocol.OperationResult{ID: id, Err: api.E("framework.operation", api.NotFound, id, errNoOperation)}
	}
	r.tell(s.framework, result)
	return true
}
