package manager

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/internal/jobs/writes"
)

// writesMax is how many keys are written at the same time; more wait.
const writesMax = 64

// writing is who waits for what is written to the store.
type writing struct {
	done  *outcome      // outcome of the batch that grows
	busy  chan struct{} // closed when the last batch is written; nil: none is being written
	under *outcome      // outcome of the batch that is being written
}

// outcome tells what has become of a batch.
type outcome struct {
	over  chan struct{}
	err   error         // nothing more is written; may be read once over is closed, as batch
	batch *writes.Batch // nil: nothing was written
}

func newOutcome() *outcome { return &outcome{over: make(chan struct{})} }

func newWriting() writing { return writing{done: newOutcome()} }

// outcomeOfAll returns the outcome of everything that has to be written by now; nil: there is nothing to write.
func (m *Manager) outcomeOfAll() *outcome {
	switch {
	case m.keeper.Any():
		return m.writing.done
	case m.writing.busy != nil:
		return m.writing.under
	}
	return nil
}

// failAll tells everybody who waits that nothing more will be written.
func (w *writing) failAll(err error) {
	w.done.err = err
	close(w.done.over)
	w.done = newOutcome()
}

// startWriting starts to write, unless a batch is being written already.
func (m *Manager) startWriting() {
	if m.writing.busy != nil || !m.keeper.Any() {
		return
	}
	m.writing.busy = make(chan struct{})
	go m.writeBatches() // ends when all is written, or when Run has ended
}

// writeBatches writes one batch after the other until there is nothing left to write.
func (m *Manager) writeBatches() {
	for {
		m.mu.Lock()
		client := m.client
		if client == nil || !m.keeper.Any() {
			close(m.writing.busy)
			m.writing.busy = nil
			m.mu.Unlock()
			return
		}
		b, done := m.keeper.TakeBatch(), m.writing.done
		m.writing.done, m.writing.under = newOutcome(), done
		m.mu.Unlock()
		err := writeBatch(client, b)
		m.do(func(now time.Time) {
			if err != nil { // Run has ended, or others have the jobs
				m.config.Logger.Error("jobs are not written", "error", err)
				m.keeper.End()
			} else {
				m.keeper.Written(b, now)
			}
			done.err, done.batch = err, b
			close(done.over)
		})
	}
}

// writeBatch writes the batch stage by stage, writesMax keys at the same time, and notes what the store refuses. What
// fails is not repeated here: the client repeats what may succeed by itself, and waits while nobody leads. Anything else
// would be refused again. An error says that Run has ended, or that another manager was active meanwhile.
func writeBatch(client masters, b *writes.Batch) error {
	for _, stage := range b.Stages() {
		stage = slices.DeleteFunc(stage, func(change writes.Write) bool { return b.IsRefused(change.Key) })
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

func write(client masters, change writes.Write) error {
	if change.Delete {
		return client.Delete(context.Background(), change.Key)
	}
	return client.Put(context.Background(), change.Key, change.Value, change.KeepFree)
}
