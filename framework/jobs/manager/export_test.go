package manager

import (
	"context"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/internal/trust/rights"
)

// ServiceOf returns the manager's gRPC service.
func ServiceOf(m *Manager) apiv1.JobServiceServer { return service{manager: m} }

// WatchersMax bounds the watchers of all jobs.
const WatchersMax = watchersMax

// Masters are the calls that a manager makes to the cluster.
type Masters = masters

// MastersOf returns the calls of a session.
func MastersOf(client *framework.Client) Masters { return session{client} }

// SubscribedTo is Subscribed with a client that the test puts between the manager and the cluster.
func (m *Manager) SubscribedTo(ctx context.Context, client Masters) error {
	return m.beginSession(ctx, client)
}

// As returns the context of a call that somebody makes who may do what the scope says.
func As(ctx context.Context, call string, scope rights.Scope) context.Context {
	row, _ := rights.RowOf("/tender.v1.JobService/" + call)
	return context.WithValue(ctx, callerKey{}, caller{row: row, scope: scope})
}
