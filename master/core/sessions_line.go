package core

import (
	"fmt"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/registry"
)

const (
	// subscribesMax is how many sessions ask the registry to admit them at once; the others wait
	// for their turn. The queue to the quorum keeps room for everybody else.
	subscribesMax = 1024
	// lineMax is how many sessions of one framework wait. One more is refused (Limit).
	lineMax = 16
	// lineRetry is when a session that had no place in it is to come back.
	lineRetry = time.Second
)

// subscribing are the sessions that ask the registry to admit them, and those that wait for that.
// Of one framework one asks at a time: whoever opens streams again and again, while the quorum is
// slow, has one change under way.
// Holds: a framework that is not asking and has somebody in its line is among the turns.
type subscribing struct {
	asking map[string]bool
	lines  map[string][]*session // by framework, first come first
	turns  []string              // frameworks whose first in line may ask
}

func newSubscribing() subscribing {
	return subscribing{asking: make(map[string]bool), lines: make(map[string][]*session)}
}

// identity is the same for all sessions that want to be one framework.
func (s *session) identity() string {
	if id := s.subscribe.Framework.ID; id != "" {
		return "framework " + string(id)
	}
	return "instance " + string(s.subscribe.Instance)
}

// lineUp puts a session at the end of its framework's line; false when too many stand there already.
func (b *subscribing) lineUp(s *session) bool {
	who := s.identity()
	if len(b.lines[who]) >= lineMax {
		return false
	}
	b.lines[who] = append(b.lines[who], s)
	if !b.asking[who] && len(b.lines[who]) == 1 {
		b.turns = append(b.turns, who)
	}
	return true
}

// next is the session whose turn it is; nil when there is none, or as many ask as may.
func (b *subscribing) next() *session {
	for len(b.turns) > 0 && len(b.asking) < subscribesMax {
		who := b.turns[0]
		b.turns = b.turns[1:]
		if line := b.lines[who]; len(line) > 0 && !b.asking[who] {
			s := line[0]
			b.drop(s)
			b.asking[who] = true
			return s
		}
	}
	return nil
}

// drop takes a session out of its line; false when it is in none.
func (b *subscribing) drop(s *session) bool {
	who := s.identity()
	at := slices.Index(b.lines[who], s)
	if at < 0 {
		return false
	}
	if b.lines[who] = slices.Delete(b.lines[who], at, at+1); len(b.lines[who]) == 0 {
		delete(b.lines, who)
	}
	return true
}

// answered: the registry has answered a session of this identity.
func (b *subscribing) answered(who string) {
	delete(b.asking, who)
	if len(b.lines[who]) > 0 {
		b.turns = append(b.turns, who)
	}
}

// openSession asks the registry, when it is the session's turn, to admit the framework or to take
// it over (R5); false when the session was refused.
func (r *sessions) openSession(s *session) bool {
	if !r.subscribing.lineUp(s) {
		r.refuseSession(s, api.E("framework.subscribe", api.Limit, nameForPeople(s.subscribe.Framework),
			fmt.Errorf("%d sessions of it wait for the quorum already; close them, or wait for their answers", lineMax)).RetryIn(lineRetry))
		return false
	}
	r.askForSessions()
	return true
}

func (r *sessions) askForSessions() {
	for s := r.subscribing.next(); s != nil; s = r.subscribing.next() {
		change := registry.Subscribe{Framework: s.subscribe.Framework, Instance: s.subscribe.Instance}
		r.proposals.propose(change, openSession{s, s.identity()})
	}
}

// subscribeAnswered goes on when the registry has answered.
func (r *sessions) subscribeAnswered(o openSession, result registry.Result) {
	r.subscribing.answered(o.identity)
	r.subscribed(o.session, result)
	r.askForSessions()
}

// leaveLine takes out a session that has ended. If it was a standby that had never asked the registry, the next one in
// its line may ask.
func (r *sessions) leaveLine(s *session) {
	if r.subscribing.drop(s) {
		r.seekDone(s)
		r.nextStandby(s.subscribe.Framework.Name)
	}
}
