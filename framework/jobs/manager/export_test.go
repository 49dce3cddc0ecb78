package manager

import (
	"context"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework"
)

// ServiceOf is the manager's gRPC service.
func ServiceOf(m *Manager) apiv1.JobServiceServer { return service{manager: m} }

// WatchersMax is how many may watch all jobs.
const WatchersMax = watchersMax

// Masters is what a manager asks of the cluster.
type Masters = masters

// MastersOf is that of a session.
func MastersOf(client *framework.Client) Masters { return session{client} }

// SubscribedTo is Subscribed with somebody between the manager and the cluster.
func (m *Manager) SubscribedTo(ctx context.Context, client Masters) error {
	return m.subscribed(ctx, client)
}
