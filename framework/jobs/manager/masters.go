package manager

import (
	"context"
	"iter"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
)

// masters is all that a manager asks of the cluster: its session's client and its store. Tests stand between the two,
// to end a manager behind any of its steps.
type masters interface {
	FrameworkID() api.FrameworkID
	Answer(answers ...api.Answer) error
	Demand(demand api.Demand) error
	Kill(task api.TaskID) error
	Acknowledge(status api.Status) error
	Reconcile(tasks ...api.TaskID) error
	Put(ctx context.Context, key string, value []byte) error
	Delete(ctx context.Context, key string) error                             // one that is not there is deleted
	All(ctx context.Context, prefix string) iter.Seq2[framework.Entry, error] // in the order of their keys
}

// session is the client of a session as a manager sees it.
type session struct{ *framework.Client }

// Kill ends a task within its own grace.
func (s session) Kill(task api.TaskID) error { return s.Client.Kill(task) }

// Put writes a key, whatever is there.
func (s session) Put(ctx context.Context, key string, value []byte) error {
	_, err := s.Store().Put(ctx, key, value, framework.AnyVersion)
	return err
}

// Delete removes a key, whatever is there.
func (s session) Delete(ctx context.Context, key string) error {
	if err := s.Store().Delete(ctx, key, framework.AnyVersion); !api.Is(err, api.NotFound) {
		return err
	}
	return nil
}

// All reads what is below a prefix.
func (s session) All(ctx context.Context, prefix string) iter.Seq2[framework.Entry, error] {
	return s.Store().All(ctx, prefix)
}
