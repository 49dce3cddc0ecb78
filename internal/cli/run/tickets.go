package run

import (
	"context"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
)

// tickets remembers what lets this run read the output of its tasks, one ticket for each agent: a thousand tasks ask the
// leader once for each of their agents.
type tickets struct {
	ask TicketSource // nil: agents ask for none

	mu    sync.Mutex // held while asking
	known map[api.AgentID]kept
}

// TicketSource asks the leader for a ticket to all tasks of a framework on an agent, and says how long it may be shown.
type TicketSource = func(ctx context.Context, task api.TaskRef, agent api.AgentID) (ticket string, fresh time.Duration, err error)

type kept struct {
	ticket string
	until  time.Time
}

func newTickets(ask TicketSource) *tickets {
	return &tickets{ask: ask, known: map[api.AgentID]kept{}}
}

// of returns the question for the tasks of a framework on one agent.
func (t *tickets) of(framework api.FrameworkID, agent api.AgentID) func(context.Context) (string, error) {
	if t.ask == nil {
		return nil
	}
	return func(ctx context.Context) (string, error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if known := t.known[agent]; time.Now().Before(known.until) {
			return known.ticket, nil
		}
		ticket, fresh, err := t.ask(ctx, api.TaskRef{Framework: framework}, agent)
		if err != nil {
			return "", err
		}
		t.known[agent] = kept{ticket, time.Now().Add(fresh)}
		return ticket, nil
	}
}
