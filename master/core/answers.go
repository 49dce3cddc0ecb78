package core

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/core/life"
)

// answers keeps what sessions still have to be told. Each question waits for its turn, or for the return of the agent
// that knows the answer. (Protocol rule R8.)
type answers struct {
	*base
	owing []*session // sessions that are still owed something
	// returning lists the agents that may know tasks of earlier terms, and silent those among them that were taken for
	// dead. Those at the front of either that are back are skipped. (R8)
	returning, silent []api.AgentID
	dropped           uint64 // how many sessions have ended
}

// What a session is owed is told in turns, so that its queue is not flooded (R4).
const (
	owedPerTurn = 256
	owedPause   = 2 * time.Millisecond
	// askedMax bounds the questions of a session that wait for their turn, without those of its Unsettled pages. A call
	// that asks more is refused (Limit); it may be repeated later (R34).
	askedMax = 65_536
	// owedRetry is how long it takes to answer askedMax questions.
	owedRetry = askedMax / owedPerTurn * owedPause
)

// expect notes an agent of the registry that may know tasks of earlier terms, and has yet to come.
func (r *answers) expect(id api.AgentID) { r.returning = append(r.returning, id) }

// noteDropped notes that a session has ended, whose questions nobody waits for any more.
func (r *answers) noteDropped() { r.dropped++ }

// question asks for the state of a task or the result of an operation. The answer is what is known when the question's
// turn comes.
type question struct {
	all walk // unless walkNone, it asks about all tasks or all operations

	operation api.OperationID // "" = it is about a task

	task   api.TaskID
	agent  api.AgentID
	past   bool       // the scheduler has seen the task past STAGING
	known  bool       // answer only if the leader knows the task, because nobody asked for it
	reason api.Reason // the reason that the answer carries
}

// sessionAnswers is what a session has asked and is owed.
type sessionAnswers struct {
	owed    questions
	walks   [walks]cursor
	owes    bool // it is in answers.owing
	turn    time.Time
	budget  int                        // how many events may still be sent in this turn
	asked   int                        // how many unsettled tasks it has listed
	absent  map[api.TaskID]api.AgentID // unsettled tasks whose agent ("" = any) is not back
	lost    map[api.TaskID]api.AgentID // unsettled tasks whose agent ("" = any such) the registry does not know (R37)
	allIn   bool                       // all unsettled tasks have arrived
	settled bool                       // it was told that all of them are answered
}

// walk names a kind of answer that covers all tasks or all operations. It waits in the queue as one question, however
// many answers it has. A cursor goes through them when its turn has come (R4).
type walk uint8

const (
	walkNone       walk = iota
	walkStart           // all tasks, as told at the start of a session
	walkTasks           // all tasks, as the answer to Reconcile
	walkOperations      // all operations whose result is remembered
	walks
)

// cursor says how far a walk has come. A second request for the same walk joins the one that is under way, because
// changes meanwhile are told anyway.
type cursor struct {
	asked      bool // it waits in the queue, or is under way
	begun      bool
	tasks      []api.TaskID      // still to be told
	operations []api.OperationID // still to be told
}

// asked is a question that waits for an agent to come back.
type asked struct {
	session *session
	question
}

// questions is a queue of questions. It is stored in pieces, because a single long slice would be copied whole while it
// grows, and everything else would wait for that.
type questions struct {
	pieces [][]question // only the first one may be empty
	next   int          // index of the next question in the first piece
	count  int
}

const questionsPerPiece = 1024

func (q *questions) push(one question) {
	if last := len(q.pieces) - 1; last < 0 || len(q.pieces[last]) == questionsPerPiece {
		q.pieces = append(q.pieces, nil)
	}
	last := len(q.pieces) - 1
	q.pieces[last] = append(q.pieces[last], one)
	q.count++
}

// first returns the next question. The queue must not be empty.
func (q *questions) first() question { return q.pieces[0][q.next] }

// drop removes the next question.
func (q *questions) drop() {
	q.count--
	if q.next++; q.next == len(q.pieces[0]) {
		q.pieces, q.next = q.pieces[1:], 0
	}
}

// owe queues a question to be answered in a later turn.
func (r *answers) owe(s *session, q question) {
	s.owed.push(q)
	r.owes(s)
}

// oweAll queues a walk, unless it is queued or under way already.
func (r *answers) oweAll(s *session, all walk) {
	if s.walks[all].asked {
		return
	}
	s.walks[all].asked = true
	r.owe(s, question{all: all})
}

// oweStart queues what a session is told at its start: the states of all known tasks.
func (r *answers) oweStart(s *session) {
	if len(s.framework.tasks) > 0 {
		r.oweAll(s, walkStart)
	}
}

// mayAsk reports whether there is room for that many more questions. If there is not, it refuses the call.
func (r *answers) mayAsk(s *session, number uint64, op string, more int) bool {
	if waiting := s.owed.count; waiting+more > askedMax {
		r.refuse(s, number, api.E(op, api.Limit, s.framework.id,
			fmt.Errorf("%d answers are still to come and at most %d may be; ask again when they are there", waiting, askedMax)).RetryIn(owedRetry))
		return false
	}
	return true
}

func (r *answers) owes(s *session) {
	if !s.owes {
		s.owes = true
		r.owing = append(r.owing, s)
	}
}

// payOwed answers what sessions are owed, as far as this turn allows.
func (r *answers) payOwed() {
	if len(r.owing) == 0 {
		return
	}
	for _, s := range r.owing {
		r.pay(s)
	}
	r.owing = slices.DeleteFunc(r.owing, func(s *session) bool {
		s.owes = s.owed.count > 0 && r.sessionByConn[s.conn] == s
		return !s.owes
	})
}

func (r *answers) pay(s *session) {
	if r.sessionByConn[s.conn] != s || s.framework == nil {
		return
	}
	if !r.now.Before(s.turn) {
		s.budget, s.turn = owedPerTurn, r.now.Add(owedPause)
	}
	for s.owed.count > 0 && s.budget > 0 {
		q := s.owed.first()
		if q.all != walkNone {
			one, more := r.walkOn(s, q.all)
			if !more {
				s.owed.drop()
				continue
			}
			if q.all == walkStart {
				r.sendAgain(s.framework.tasks[one.task])
			}
			q = one
		} else {
			s.owed.drop()
		}
		if r.answer(s, q) {
			s.budget--
		}
	}
	if s.owed.count == 0 && s.allIn && !s.settled {
		s.settled = true
		r.tell(s.framework, protocol.Settled{})
	}
}

// walkOn returns the next question of a walk; false when there is none left.
func (r *answers) walkOn(s *session, all walk) (question, bool) {
	at := &s.walks[all]
	if !at.begun {
		at.begun = true
		if all == walkOperations {
			at.operations = s.framework.results.Known()
		} else {
			at.tasks = sortedKeys(s.framework.tasks)
		}
	}
	switch {
	case len(at.operations) > 0:
		id := at.operations[0]
		at.operations = at.operations[1:]
		return question{operation: id}, true
	case len(at.tasks) > 0:
		id := at.tasks[0]
		at.tasks = at.tasks[1:]
		reason := api.ReasonReconciliation
		if all == walkStart {
			reason = api.ReasonNone
		}
		return question{task: id, known: true, reason: reason}, true
	}
	*at = cursor{}
	return question{}, false
}

// nextPay returns when the next turn is due for sessions that are still owed something.
func (r *answers) nextPay() time.Time {
	var first time.Time
	for _, s := range r.owing {
		first = soonest(first, s.turn)
	}
	return first
}

// agentQuestions holds questions about tasks of an agent that is away. They are answered when it is back (R8).
type agentQuestions struct {
	questions   []asked
	questionsAt uint64 // answers.dropped when questions of ended sessions were last removed
}

// questionsPerAgentMax bounds the questions that wait for one agent. Further ones are dropped; the SDK's periodic
// reconciliation asks them again.
const questionsPerAgentMax = 100_000

// unsettled takes a page of the tasks whose end the scheduler has not seen (R8). Tasks that the leader knows are told
// anyway, so only the others are queued as questions.
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

// seenPast reports whether the scheduler has seen the task past STAGING.
func seenPast(u protocol.UnsettledTask) bool {
	return u.Number > 0 || u.State != api.TaskUnspecified && u.State != api.TaskStaging
}

// reconcile queues the answers for the named tasks, or for all known tasks if none is named.
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

// answer sends the answer to a question; it returns false when there is nothing to send, now or at all.
func (r *answers) answer(s *session, q question) bool {
	if q.operation != "" {
		return r.answerOperation(s, q.operation)
	}
	if t := s.framework.tasks[q.task]; t != nil {
		r.tell(s.framework, protocol.Update{Status: t.placed(toldStatus(t, q.reason))})
		return true
	}
	if q.known || s.waits[q.task] != nil { // its accept waits for the registry, and will tell the result
		return false
	}
	state, message := r.absent(s.framework.id, q)
	switch state {
	case api.TaskUnspecified:
		r.askLater(s, r.whoMayKnow(q), q)
		return false
	case api.TaskUnreachable:
		if a := r.whoMayKnow(q); a != nil {
			r.askLater(s, a, q) // the agent may come back without the task
		} else {
			s.noteLost(q.task, q.agent)
			r.noteUntold(s.framework.id, q.task, q.agent)
		}
	}
	r.tell(s.framework, protocol.Update{Status: api.Status{
		Framework: s.framework.id, Task: q.task, Agent: q.agent, State: state, Reason: api.ReasonReconciliation,
		Message: message, Source: api.MoverMaster, At: r.now,
	}})
	return true
}

// askLater keeps the question until the agent returns. Until then the task's ID counts as in use.
func (r *answers) askLater(s *session, a *agent, q question) {
	if _, waits := s.absent[q.task]; waits || len(s.absent) >= unsettledTasksMax {
		return
	}
	if len(a.questions) >= questionsPerAgentMax && a.questionsAt != r.dropped { // some sessions may have ended
		a.questionsAt = r.dropped
		a.questions = slices.DeleteFunc(a.questions, func(q asked) bool { return r.sessionByConn[q.session.conn] != q.session })
	}
	if len(a.questions) < questionsPerAgentMax {
		a.questions = append(a.questions, asked{s, q})
		s.absent[q.task] = q.agent
		r.noteUntold(s.framework.id, q.task, q.agent)
	}
}

// whoMayKnow returns the agent whose return may bring the answer: the named one, or else the first one that has not
// reported in this term; one that is taken for dead only if there is no other, as it is not waited for. It returns nil when
// there is no such agent.
func (r *answers) whoMayKnow(q question) *agent {
	if q.agent != "" {
		return r.agentByID[q.agent]
	}
	for ; len(r.returning) > 0; r.returning = r.returning[1:] {
		switch a := r.agentByID[r.returning[0]]; {
		case a == nil || !r.maybeMore(a):
		case a.phase.Dead():
			r.silent = append(r.silent, a.id)
		default:
			return a
		}
	}
	for ; len(r.silent) > 0; r.silent = r.silent[1:] {
		if a := r.agentByID[r.silent[0]]; a != nil && r.maybeMore(a) {
			return a
		}
	}
	return nil
}

// absent returns the state of a task that the leader does not know (R8). It is unspecified while the task's agent, or
// any agent that may have the task, is not back.
func (r *answers) absent(framework api.FrameworkID, q question) (api.TaskState, string) {
	a := r.whoMayKnow(q)
	switch {
	case a == nil && q.agent == "" && r.missesLost():
		return api.TaskUnreachable, "an agent that may have it is not back since the registry was restored or recovered"
	case a == nil && q.agent == "":
		return api.TaskUnknown, "nobody knows this task: it was never launched, or its end was acknowledged"
	case a != nil && q.agent == "" && a.phase.Dead():
		return api.TaskUnreachable, "agent " + string(a.id) + ", which may have it, is " + a.gone
	case q.agent == "":
		return api.TaskUnspecified, ""
	case r.neverBack(q.agent) != "":
		return api.TaskGoneByOperator, "agent " + string(q.agent) + " " + r.neverBack(q.agent)
	case a == nil && r.registry.LostAgent(q.agent):
		return api.TaskUnreachable, "agent " + string(q.agent) + " is not back since the registry was restored or recovered"
	case a == nil:
		return api.TaskUnknown, "no such agent is admitted"
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

// stubOf returns what the agent remembers of a task that has ended and whose end was acknowledged; nil if it remembers
// nothing.
func (a *agent) stubOf(ref api.TaskRef) *protocol.TaskStub {
	for i := range slices.Backward(a.stubs) {
		if a.stubs[i].TaskRef == ref {
			return &a.stubs[i]
		}
	}
	return nil
}

// neverBack says why an agent never comes back; "": it is there, may come back, or was never known.
func (b *base) neverBack(id api.AgentID) string {
	a := b.agentByID[id]
	switch {
	case a == nil && b.wasAgent(id) && !b.registry.LostAgent(id):
		return "was removed"
	case a != nil && b.marks(a).Has(api.MarkGone):
		return "is gone"
	}
	return ""
}

// wasAgent reports whether the registry has once given out this ID.
func (b *base) wasAgent(id api.AgentID) bool {
	digits, minted := strings.CutPrefix(string(id), "agent-")
	n, err := strconv.ParseUint(digits, 10, 48)
	return minted && err == nil && n > 0 && n < b.registry.NextAgent
}

// answerQuestions answers the questions that frameworks asked while the agent was away.
func (r *answers) answerQuestions(a *agent) {
	questions := a.questions
	a.questions = nil
	for _, q := range questions {
		r.noteUntold(q.session.framework.id, q.task, q.agent)
		if r.sessionByConn[q.session.conn] != q.session {
			if a.account == life.AccountNone && q.session.framework.latest == q.session && !r.marks(a).Has(api.MarkGone) {
				a.questions = append(a.questions, q) // shown to people until the agent or the framework is back
			}
			continue
		}
		delete(q.session.absent, q.task)
		if q.session.framework.tasks[q.task] == nil { // otherwise it was told when the agent reported it
			r.owe(q.session, q.question)
		}
	}
}

// reconcileOperations queues the results of the named operations, or of all known operations if none is named.
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

// answerOperation sends the result of the operation. While the operation waits for the registry it sends nothing and
// returns false, because the result is sent when the registry has answered.
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
