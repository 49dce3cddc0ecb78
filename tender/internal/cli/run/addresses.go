package run

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
)

// addresses remembers where the agents listen. All streams ask here, so that a restarted agent with a hundred tasks
// costs one request and not two hundred.
type addresses struct {
	operator apiv1.OperatorServiceClient

	mu    sync.Mutex // held during a request
	known map[api.AgentID]string
	asked time.Time
}

// fresh is how long an answer can be used.
const fresh = 500 * time.Millisecond

func newAddresses(operator apiv1.OperatorServiceClient) *addresses {
	return &addresses{operator: operator, known: map[api.AgentID]string{}}
}

// of returns a function that returns the address of an agent with tasks of the framework. Its first call may be
// answered from memory, later ones only by a fresh answer.
func (a *addresses) of(agent api.AgentID, framework api.FrameworkID) func(context.Context) (string, error) {
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
		if address == "" {
			return a.askByTasks(ctx, agent, framework)
		}
		return address, nil
	}
}

// askByTasks asks for the tasks of the framework on the agent: a caller that may not see agents is told the addresses
// of its own.
func (a *addresses) askByTasks(ctx context.Context, agent api.AgentID, framework api.FrameworkID) (string, error) {
	tasks, err := a.operator.ListTasks(ctx, &apiv1.ListTasksRequest{FrameworkId: string(framework), AgentId: string(agent), All: true, Limit: 1})
	if err != nil {
		return "", err
	}
	if len(tasks.GetItems()) == 0 {
		return "", fmt.Errorf("no master knows a task of %s on agent %s", framework, agent)
	}
	a.known[agent] = tasks.GetItems()[0].GetAgentAddress()
	return a.known[agent], nil
}

func (a *addresses) ask(ctx context.Context) error {
	agents, _, err := client.All(ctx, a.operator.ListAgents, 0, &apiv1.ListRequest{})
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
