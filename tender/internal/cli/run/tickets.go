package run

import (
	"context"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
)

// tickets remembers the tickets with which this run reads the output of its tasks, one for each agent. So a thousand
// tasks ask the leader only once for each agent.
type tickets struct {
	ask TicketSource // nil: agents need no tickets

	mu    sync.Mutex // held during a request
	known map[api.AgentID]kept
}

// TicketSource asks the leader for a ticket for all tasks of a framework on an agent. fresh is how long it may be
// shown.
type TicketSource = func(ctx context.Context, task api.TaskRef, agent api.AgentID) (ticket string, fresh time.Duration, err error)

type kept struct {
	ticket string
	until  time.Time
}

func newTickets(ask TicketSource) *tickets {
	return &tickets{ask: ask, known: map[api.AgentID]kept{}}
}

// of returns the function that returns a ticket for the tasks of a framework on one agent; nil if none is needed.
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
