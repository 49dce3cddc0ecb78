package core

import (
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// What a session is owed is told in turns, so that no queue is flooded (R4).
const (
	owedPerTurn = 256
	owedPause   = 2 * time.Millisecond
)

// question is a task whose state, or an operation whose result, a session is to be told.
// It is answered by what is known when its turn comes.
type question struct {
	operation api.OperationID // "": it is about a task

	task   api.TaskID
	agent  api.AgentID
	past   bool       // the scheduler has seen it past STAGING
	known  bool       // only if the leader knows it: it is told without being asked
	reason api.Reason // of the answer
}

// asked is a question that waits for an agent to come back.
type asked struct {
	session *session
	question
}

// owe queues an answer.
func (c *Core) owe(s *session, q question) {
	if s.next == len(s.owed) {
		s.owed, s.next = s.owed[:0], 0
	}
	s.owed = append(s.owed, q)
	c.owes(s)
}

func (c *Core) owes(s *session) {
	if !s.owes {
		s.owes = true
		c.owing = append(c.owing, s)
	}
}

// payOwed answers what the turn allows.
func (c *Core) payOwed() {
	if len(c.owing) == 0 {
		return
	}
	for _, s := range c.owing {
		c.pay(s)
	}
	c.owing = slices.DeleteFunc(c.owing, func(s *session) bool {
		s.owes = s.next < len(s.owed) && c.sessions[s.conn] == s
		return !s.owes
	})
}

func (c *Core) pay(s *session) {
	if c.sessions[s.conn] != s || s.framework == nil {
		return
	}
	if !c.now.Before(s.turn) {
		s.budget, s.turn = owedPerTurn, c.now.Add(owedPause)
	}
	for s.next < len(s.owed) && s.budget > 0 {
		q := s.owed[s.next]
		s.next++
		if c.answer(s, q) {
			s.budget--
		}
	}
	if s.next == len(s.owed) && s.allIn && !s.settled {
		s.settled = true
		c.tell(s.framework, protocol.Settled{})
	}
}

// nextPay is the next turn of those who are still owed something.
func (c *Core) nextPay() time.Time {
	var first time.Time
	for _, s := range c.owing {
		first = soonest(first, s.turn)
	}
	return first
}
