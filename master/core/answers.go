package core

import (
	"fmt"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// answers are what sessions still have to be told: each question waits for its turn, or for the return of the agent
// that knows the answer. (Protocol rule R8.)
type answers struct {
	*base
	owing     []*session    // to whom something is still to be told
	returning []api.AgentID // agents that may know tasks of earlier terms; those at the front that are back are skipped (R8)
	dropped   uint64        // counts sessions that have ended
}

// What a session is owed is told in turns, so that no queue is flooded (R4).
const (
	owedPerTurn = 256
	owedPause   = 2 * time.Millisecond
	// askedMax bounds the questions of a session that wait for their turn, beside those of
	// its Unsettled pages. A call that asks more is refused (Limit) and may come again (R34).
	askedMax = 65_536
	// owedRetry is how long it takes to answer so many.
	owedRetry = askedMax / owedPerTurn * owedPause
)

// question is a task whose state, or an operation whose result, a session is to be told.
// It is answered by what is known when its turn comes.
type question struct {
	all walk // not walkNone: it asks about all tasks or operations

	operation api.OperationID // "": it is about a task

	task   api.TaskID
	agent  api.AgentID
	past   bool       // the scheduler has seen it past STAGING
	known  bool       // tell it only if the leader knows the task: nobody has asked
	reason api.Reason // of the answer
}

// sessionAnswers is what a session is owed, and has asked.
type sessionAnswers struct {
	owed    questions
	walks   [walks]cursor
	owes    bool // it is in the list owing
	turn    time.Time
	budget  int                        // how many events this turn may still send
	asked   int                        // unsettled tasks so far
	absent  map[api.TaskID]api.AgentID // unsettled, and their agent ("" = any) is not back
	lost    map[api.TaskID]api.AgentID // unsettled, and the registry does not know their agent (R37)
	allIn   bool                       // all unsettled tasks are here
	settled bool                       // and it was told so
}

// walk names what a session may be told all of. It waits as one question however many
// there are, and is walked by a cursor when its turn has come (R4).
type walk uint8

const (
	walkNone       walk = iota
	walkStart           // all tasks, as their states are told at the start of a session
	walkTasks           // all tasks, as the answer to Reconcile
	walkOperations      // all operations that are known
	walks
)

// cursor is how far a walk has come. A second request for the same walk joins the one that is under way: what changes
// meanwhile is told anyway, without being asked.
type cursor struct {
	asked      bool // waits, or is under way
	begun      bool
	tasks      []api.TaskID      // still to be told
	operations []api.OperationID // still to be told
}

// asked is a question that waits for an agent to come back.
type asked struct {
	session *session
	question
}

// questions is a queue of them. It is kept in pieces: one long list would be copied whole as it grows, while all
// others wait for the loop.
type questions struct {
	pieces [][]question // none is empty, but perhaps the first one
	next   int          // of the first piece
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

// first is the next one; there is one.
func (q *questions) first() question { return q.pieces[0][q.next] }

// drop forgets the first one.
func (q *questions) drop() {
	q.count--
	if q.next++; q.next == len(q.pieces[0]) {
		q.pieces, q.next = q.pieces[1:], 0
	}
}

// owe queues an answer.
func (r *answers) owe(s *session, q question) {
	s.owed.push(q)
	r.owes(s)
}

// oweAll queues a walk, unless it waits already.
func (r *answers) oweAll(s *session, all walk) {
	if s.walks[all].asked {
		return
	}
	s.walks[all].asked = true
	r.owe(s, question{all: all})
}

// oweStart queues what a session is told at its start: the states of all tasks that are known.
func (r *answers) oweStart(s *session) {
	if len(s.framework.tasks) > 0 {
		r.oweAll(s, walkStart)
	}
}

// mayAsk says whether so many questions more have room; if not, the call is refused.
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

// payOwed sends answers, as many as this turn allows.
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

// walkOn is the next question of a walk; false at its end.
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

// nextPay is when the next turn is for sessions that are still owed something.
func (r *answers) nextPay() time.Time {
	var first time.Time
	for _, s := range r.owing {
		first = soonest(first, s.turn)
	}
	return first
}
