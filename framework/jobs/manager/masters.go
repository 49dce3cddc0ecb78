package manager

import (
	"context"
	"iter"
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/internal/jobs/keeper"
)

// masters is everything that a manager uses of the cluster: the client of its session and its store. Tests put
// themselves in between, to end a manager after any of its steps.
type masters interface {
	keeper.Masters
	FrameworkID() api.FrameworkID
	Takeovers() uint64                             // how often another manager may have kept the jobs
	StandsBy() bool                                // another manager keeps them
	Join(ctx context.Context, role api.Role) error // makes it one of Roles, and waits until the masters have agreed
	ExplainShape(ctx context.Context, role api.Role, shape api.Shape, together bool) (reasons []string, inVain bool, err error)
	Put(ctx context.Context, key string, value []byte, keepFree int) error
	Delete(ctx context.Context, key string) error                             // no error if the key does not exist
	All(ctx context.Context, prefix string) iter.Seq2[framework.Entry, error] // in the order of their keys
}

// session is the client of a session, as a manager uses it.
type session struct{ *framework.Client }

// Kill ends a task within its own grace.
func (s session) Kill(task api.TaskID) error { return s.Client.Kill(task) }

// Join adds a role.
func (s session) Join(ctx context.Context, role api.Role) error {
	return s.UpdateFramework(ctx, func(f *api.Framework) {
		if !slices.Contains(f.Roles, role) {
			f.Roles = append(f.Roles, role)
		}
	})
}

// Put writes a key, whatever its version, if that leaves so many percent of the store's bounds free.
func (s session) Put(ctx context.Context, key string, value []byte, keepFree int) error {
	_, err := s.Store().KeepFree(keepFree).Put(ctx, key, value, framework.AnyVersion)
	return err
}

// Delete removes a key, whatever its version; a key that does not exist is no error.
func (s session) Delete(ctx context.Context, key string) error {
	if err := s.Store().Delete(ctx, key, framework.AnyVersion); !api.Is(err, api.NotFound) {
		return err
	}
	return nil
}

// All reads all entries under a prefix.
func (s session) All(ctx context.Context, prefix string) iter.Seq2[framework.Entry, error] {
	return s.Store().All(ctx, prefix)
}
