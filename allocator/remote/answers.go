package remote

import (
	"context"
	"fmt"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

const (
	// answerFor is how long an explanation is used again before it is asked for anew.
	answerFor = 2 * time.Second
	// answersMax bounds the explanations that are kept, and the questions that are open. Beyond it all of them are
	// forgotten, and asked for again.
	answersMax = 10_000
)

// answers holds what the other process has answered to questions. Nobody waits for an answer: the first caller is told
// to ask again.
type answers struct {
	number   uint64
	open     map[uint64]question
	pending  map[about]bool
	reasons  map[about]explained
	shares   allocator.Shares
	counting bool // the shares were asked for
}

type about struct {
	framework api.FrameworkID
	agent     api.AgentID
}

type question struct {
	about  about
	shares bool
}

type explained struct {
	reasons []string
	at      time.Time
}

func newAnswers() answers {
	return answers{open: make(map[uint64]question), pending: make(map[about]bool), reasons: make(map[about]explained)}
}

// reset forgets the questions of a session that has ended.
func (a *answers) reset() {
	clear(a.open)
	clear(a.pending)
	clear(a.reasons)
	a.counting = false
}

// Explain returns the reasons that the other process has given, or says that it was asked for them.
func (a *Allocator) Explain(id api.FrameworkID, agent api.AgentID, now time.Time) allocator.Explanation {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.session == nil {
		return allocator.Explanation{Reasons: []string{a.awayText(now)}}
	}
	what := about{id, agent}
	if said, ok := a.answers.reasons[what]; ok && now.Sub(said.at) < answerFor {
		return allocator.Explanation{Reasons: said.reasons}
	}
	if !a.answers.pending[what] {
		a.answers.pending[what] = true
		a.sendQuestion(question{about: what}, &apiv1.AllocatorQuestion{At: a.codec.Nanos(now), Question: &apiv1.AllocatorQuestion_Explain{
			Explain: &apiv1.AllocatorExplain{FrameworkId: string(id), AgentId: string(agent)},
		}})
	}
	return allocator.Explanation{Reasons: []string{fmt.Sprintf("the allocator at %s has just been asked; ask again in a moment", a.config.Argument)}}
}

// Answered waits until all questions are answered, the other process is away, or ctx ends. After that Explain knows the
// answers.
func (a *Allocator) Answered(ctx context.Context) {
	for {
		a.mu.Lock()
		news, done := a.news, a.session == nil || len(a.answers.open) == 0
		a.mu.Unlock()
		if done {
			return
		}
		select {
		case <-news:
		case <-ctx.Done():
			return
		}
	}
}

// wakeCallers wakes the callers that wait in Answered.
func (a *Allocator) wakeCallers() {
	close(a.news)
	a.news = make(chan struct{})
}

// awayText says since when the other process is away, and why.
func (a *Allocator) awayText(now time.Time) string {
	return fmt.Sprintf("the allocator at %s is away for %v: %s; what runs goes on, nothing new is offered",
		a.config.Argument, now.Sub(a.since).Round(time.Second), a.away)
}

// Shares returns the shares as the other process has last told them. Each call asks for them again.
func (a *Allocator) Shares() allocator.Shares {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.session != nil && !a.answers.counting {
		a.answers.counting = true
		a.sendQuestion(question{shares: true}, &apiv1.AllocatorQuestion{At: a.codec.Nanos(a.now), Question: &apiv1.AllocatorQuestion_Shares{Shares: true}})
	}
	return a.answers.shares
}

func (a *Allocator) sendQuestion(what question, m *apiv1.AllocatorQuestion) {
	if len(a.answers.open) >= answersMax || len(a.answers.reasons) >= answersMax {
		a.answers.reset()
	}
	a.answers.number++
	m.Number = a.answers.number
	a.answers.open[m.Number] = what
	a.session.questions = append(a.session.questions, m)
	a.session.wakeWriter()
}

// takeReply handles a reply. A reply that belongs to no open question is ignored.
func (a *Allocator) takeReply(m *apiv1.AllocatorReply) {
	what, ok := a.answers.open[m.GetNumber()]
	if !ok {
		return
	}
	delete(a.answers.open, m.GetNumber())
	if !what.shares {
		delete(a.answers.pending, what.about)
		a.answers.reasons[what.about] = explained{m.GetReasons(), a.now}
		return
	}
	a.answers.counting = false
	a.answers.shares = allocator.Shares{Frameworks: make(map[api.FrameworkID]float64), Roles: make(map[api.Role]float64)}
	for id, share := range m.GetFrameworkShares() {
		a.answers.shares.Frameworks[api.FrameworkID(id)] = share
	}
	for role, share := range m.GetRoleShares() {
		a.answers.shares.Roles[api.Role(role)] = share
	}
}
