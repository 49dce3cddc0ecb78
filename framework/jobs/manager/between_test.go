package manager_test

import (
	"context"
	"fmt"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/jobs/manager"
)

// between is a manager whose calls to the cluster a test sees, and can refuse or end.
type between struct {
	*manager.Manager
	// write is asked before each write into the store; its error is what the manager is told in place of it. nil: none is.
	write func(ctx context.Context, key string, size, keepFree int) error
	// did is told of each call that changes anything outside, and how it went; the manager is told what it returns.
	did func(verb, what string, err error) error
}

// Subscribed implements framework.Subscriber.
func (b between) Subscribed(ctx context.Context, client *framework.Client) error {
	return b.SubscribedTo(ctx, mastersBetween{manager.MastersOf(client), b})
}

type mastersBetween struct {
	manager.Masters
	b between
}

func (m mastersBetween) Put(ctx context.Context, key string, value []byte, keepFree int) error {
	if m.b.write != nil {
		if err := m.b.write(ctx, key, len(value), keepFree); err != nil {
			return err
		}
	}
	return m.b.did("put", key, m.Masters.Put(ctx, key, value, keepFree))
}

func (m mastersBetween) Delete(ctx context.Context, key string) error {
	return m.b.did("delete", key, m.Masters.Delete(ctx, key))
}

func (m mastersBetween) Kill(task api.TaskID) error {
	return m.b.did("kill", string(task), m.Masters.Kill(task))
}

func (m mastersBetween) Acknowledge(status api.Status) error {
	err := m.Masters.Acknowledge(status)
	if status.Task == "" {
		return err
	}
	return m.b.did("acknowledge", fmt.Sprint(status.Task, " ", status.State), err)
}

func (m mastersBetween) Answer(answers ...api.Answer) error {
	err := m.Masters.Answer(answers...)
	for _, answer := range answers {
		for _, operation := range answer.Operations {
			if len(operation.Tasks) > 0 {
				return m.b.did("launch", string(operation.Tasks[0].ID), err)
			}
		}
	}
	return err
}
