package manager

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/internal/jobs/keeper"
)

// writesMax is how many keys are written at the same time; more wait.
const writesMax = 64

// outcomeOf returns the channel that tells what has become of all that has to be written of a job by now.
func (m *Manager) outcomeOf(op, name string) <-chan error {
	told := make(chan error, 1)
	m.keeper.Await(name, func(refused, over error) {
		switch {
		case over != nil:
			told <- api.E(op, api.Unknown, name, over)
		case refused != nil:
			told <- api.E(op, api.KindOf(refused), name, fmt.Errorf("it is not stored yet, and is tried again by itself: %w", refused))
		default:
			told <- nil
		}
	})
	return told
}

// await waits until the outcome is told; a nil outcome needs no wait.
func await(ctx context.Context, op, name string, outcome <-chan error) error {
	if outcome == nil {
		return nil
	}
	select {
	case err := <-outcome:
		return err
	case <-ctx.Done():
		return api.E(op, api.Unknown, name, context.Cause(ctx))
	}
}

// startWriting starts to write, unless a batch is being written already.
func (m *Manager) startWriting() {
	if m.writing != nil || !m.keeper.Any() {
		return
	}
	m.writing = make(chan struct{})
	go m.writeBatches() // ends when all is written, or when Run has ended
}

// writeBatches writes one batch after the other until there is nothing left to write.
func (m *Manager) writeBatches() {
	for {
		m.mu.Lock()
		client := m.client
		if client == nil || !m.keeper.Any() {
			close(m.writing)
			m.writing = nil
			m.mu.Unlock()
			return
		}
		b := m.keeper.TakeBatch()
		m.mu.Unlock()
		err := writeBatch(client, b)
		m.runWork(func(now time.Time) {
			if err != nil { // Run has ended, or others have the jobs
				m.config.Logger.Error("jobs are not written", "error", err)
				m.keeper.Unwritten(err)
			} else {
				m.keeper.Written(b, now)
			}
		})
	}
}

// writeBatch writes the batch stage by stage, writesMax keys at the same time, and notes what the store refuses. What
// fails is not repeated here: the client repeats what may succeed by itself, and waits while nobody leads. Anything else
// would be refused again. An error says that Run has ended, or that another manager was active meanwhile.
func writeBatch(client masters, b *keeper.Batch) error {
	for _, stage := range b.Stages() {
		stage = slices.DeleteFunc(stage, func(change keeper.Write) bool { return b.IsRefused(change.Key) })
		for page := range slices.Chunk(stage, writesMax) {
			wrong := make([]error, len(page))
			var group sync.WaitGroup
			for i, change := range page {
				group.Go(func() { wrong[i] = write(client, change) })
			}
			group.Wait()
			for i, err := range wrong {
				if err == nil {
					continue
				}
				if api.Is(err, api.Fenced) { // another manager has the jobs, or had them
					return err
				}
				if over := client.Acknowledge(api.Status{}); over != nil { // of no status; it tells whether Run goes on
					return over
				}
				b.Refuse(page[i].Key, err)
			}
		}
	}
	return nil
}

func write(client masters, change keeper.Write) error {
	if change.Delete {
		return client.Delete(context.Background(), change.Key)
	}
	return client.Put(context.Background(), change.Key, change.Value, change.KeepFree)
}
