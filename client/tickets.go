package client

import (
	"context"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// ReadTicket asks the leader for a ticket to read output and files of a task on an agent; without a task ID, of all
// tasks of the framework there. It is "" in a cluster without certificates. fresh is how long to show it: half of its
// life, so that it does not expire on its way.
func (c *Client) ReadTicket(ctx context.Context, task api.TaskRef, agent api.AgentID) (ticket string, fresh time.Duration, err error) {
	if !c.config.Tickets {
		return "", 0, nil
	}
	answer, err := c.Operator().GetReadTicket(ctx, ticketRequest(task, agent))
	return answer.GetTicket(), answer.GetTtl().AsDuration() / 2, err
}

// ExecTicket asks the leader for a ticket to run a command inside a task.
func (c *Client) ExecTicket(ctx context.Context, task api.TaskRef, agent api.AgentID) (ticket string, err error) {
	if !c.config.Tickets {
		return "", nil
	}
	answer, err := c.Operator().GetExecTicket(ctx, ticketRequest(task, agent))
	return answer.GetTicket(), err
}

func ticketRequest(task api.TaskRef, agent api.AgentID) *apiv1.TicketRequest {
	return &apiv1.TicketRequest{FrameworkId: string(task.Framework), TaskId: string(task.Task), AgentId: string(agent)}
}
