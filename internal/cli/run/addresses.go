package run

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// addresses remembers where the agents listen. All streams ask here, so that a restarted agent with a hundred tasks
// costs one question and not two hundred.
type addresses struct {
	operator apiv1.OperatorServiceClient

	mu    sync.Mutex // held while asking
	known map[api.AgentID]string
	asked time.Time
}

// fresh is how long an answer is good for.
const fresh = 500 * time.Millisecond

func newAddresses(operator apiv1.OperatorServiceClient) *addresses {
	return &addresses{operator: operator, known: map[api.AgentID]string{}}
}

// of returns the question for one agent: the first time it may be answered from memory, later only by a fresh answer.
func (a *addresses) of(agent api.AgentID) func(context.Context) (string, error) {
	first := true
	return func(ctx context.Context) (string, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		address, known := a.known[agent]
		if known && address != "" && (first || time.Since(a.asked) < fresh) {
			first = false
			return address, nil
		}
		first = false
		if err := a.ask(ctx); err != nil {
			return "", err
		}
		if address, known = a.known[agent]; !known {
			return "", fmt.Errorf("agent %s is no more", agent)
		}
		return address, nil
	}
}

func (a *addresses) ask(ctx context.Context) error {
	agents, err := listAgents(ctx, a.operator)
	if err != nil {
		return err
	}
	clear(a.known)
	for _, agent := range agents {
		a.known[api.AgentID(agent.GetId())] = agent.GetAddress()
	}
	a.asked = time.Now()
	return nil
}
