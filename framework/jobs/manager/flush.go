package manager

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/internal/jobs/core"
	"github.com/tenderhq/tender/framework/internal/jobs/writes"
)

// writesMax is how many keys are written at the same time; more wait.
const writesMax = 64

// writing is what has to be written to the store, and who waits for it.
type writing struct {
	writes.Writes
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

func newWriting() writing { return writing{Writes: writes.New(), done: newOutcome()} }

// refused returns why the store has not taken the job; nil: it has.
func (done *outcome) refused(name string) error {
	if done.batch == nil {
		return nil
	}
	return done.batch.Refused(name)
}

// outcomeOfAll returns the outcome of everything that has to be written by now; nil: there is nothing to write.
func (w *writing) outcomeOfAll() *outcome {
	switch {
	case w.Any():
		return w.done
	case w.busy != nil:
		return w.under
	}
	return nil
}

// failAll tells everybody who waits that nothing more will be written.
func (w *writing) failAll(err error) {
	w.done.err = err
	close(w.done.over)
	w.done, w.Writes = newOutcome(), writes.New()
}

// masterOf returns the job of a name; nil: there is none.
func (m *Manager) masterOf(name string) *core.JobMaster {
	if e := m.jobs[name]; e != nil {
		return e.master
	}
	return nil
}

// startWriting starts to write, unless a batch is being written already.
func (m *Manager) startWriting() {
	if m.writing.busy != nil || !m.writing.Any() {
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
		if client == nil || !m.writing.Any() {
			close(m.writing.busy)
			m.writing.busy = nil
			m.mu.Unlock()
			return
		}
		b, done := m.writing.TakeBatch(m.masterOf), m.writing.done
		m.writing.done, m.writing.under = newOutcome(), done
		m.mu.Unlock()
		err := writeBatch(client, b)
		m.do(func(now time.Time) {
			if err != nil { // Run has ended, or others have the jobs
				m.config.Logger.Error("jobs are not written", "error", err)
				m.endSession()
			} else {
				m.setAside(b, now)
				m.performEffects(b, now)
				m.takeBack(b)
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
		stage = slices.DeleteFunc(stage, func(one writes.Write) bool { return b.IsRefused(one.Key) })
		for page := range slices.Chunk(stage, writesMax) {
			wrong := make([]error, len(page))
			var group sync.WaitGroup
			for i, one := range page {
				group.Go(func() { wrong[i] = write(client, one) })
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

func write(client masters, one writes.Write) error {
	if one.Delete {
		return client.Delete(context.Background(), one.Key)
	}
	return client.Put(context.Background(), one.Key, one.Value, one.KeepFree)
}

// setAside sets the jobs aside that were refused. Of their tasks that were to be launched none is.
func (m *Manager) setAside(b *writes.Batch, now time.Time) {
	names, dropped := m.writing.SetAside(b, now)
	for _, name := range names {
		m.config.Logger.Warn("a job is set aside", "job", name, "error", b.Refused(name))
		e := m.jobs[name]
		for _, task := range dropped[name] {
			m.giveBackUnused(m.flights.leave(task))
			if e != nil {
				m.stepJob(e, now, core.Undispatched{Task: task, Why: "the store refuses to take its job"})
			}
		}
		if e != nil {
			m.noteChange(e)
		}
	}
}

// takeBack ends that jobs are set aside which the store has taken now.
func (m *Manager) takeBack(b *writes.Batch) {
	for _, name := range m.writing.TakeBack(b) {
		m.config.Logger.Info("a job that was set aside is stored again", "job", name)
		if e := m.jobs[name]; e != nil {
			m.noteChange(e)
		}
	}
}

// performEffects performs the effects that have waited for a batch, but for those of jobs that were refused.
func (m *Manager) performEffects(b *writes.Batch, now time.Time) {
	for _, one := range b.Effects {
		if m.client == nil {
			return
		}
		if b.Refused(one.Job) != nil {
			continue
		}
		if err := m.performOne(one, now); err != nil {
			m.endSession()
		}
	}
}

func (m *Manager) performOne(one writes.Effect, now time.Time) error {
	switch effect := one.Effect.(type) {
	case core.Dispatch:
		return m.launchOffer(effect.Task)
	case core.Kill:
		return m.client.Kill(effect.Task)
	case core.Acknowledge:
		return m.client.Acknowledge(effect.Status)
	case core.Tell:
		_ = m.client.TellJob(effect.Event) // people read it, and nothing depends on it
	case core.Forgotten:
		if e := m.jobs[one.Job]; e != nil && e.master.Gone {
			m.removeJob(one.Job)
			m.writing.TrySoon(now)
		}
	}
	return nil
}
