package manager

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/jobs/internal/core"
	"github.com/tenderhq/tender/internal/pause"
)

// prefix is how all keys of jobs begin; the job's name follows.
const prefix = "jobs/"

func keyOf(name, key string) string { return prefix + name + "/" + key }

// writesMax is how many keys are written at the same time; more wait.
const writesMax = 64

// retryPause is the pause before a refused write is tried again.
const retryPause = time.Second

// writing is what has to be written to the store, and the effects that wait for it. One batch is written at a time;
// meanwhile the next one grows.
type writing struct {
	keys    map[string][2]string // to be written: the job's name and the key below it
	effects []pending            // effects that wait for these keys
	done    *outcome             // outcome of this batch
	busy    bool                 // a batch is being written
	under   *outcome             // outcome of the batch that is being written
}

type pending struct {
	name   string
	effect core.Effect
}

// outcome tells what has become of a batch.
type outcome struct {
	over chan struct{}
	err  error // may be read once over is closed
}

func newOutcome() *outcome { return &outcome{over: make(chan struct{})} }

func newWriting() writing { return writing{keys: make(map[string][2]string), done: newOutcome()} }

// all returns the outcome of everything that has to be written by now; nil: there is nothing to write.
func (w *writing) all() *outcome {
	switch {
	case len(w.keys)+len(w.effects) > 0:
		return w.done
	case w.busy:
		return w.under
	}
	return nil
}

func (w *writing) dirty(name, key string) { w.keys[keyOf(name, key)] = [2]string{name, key} }

func (w *writing) after(name string, effect core.Effect) {
	w.effects = append(w.effects, pending{name, effect})
}

// mark and reset remove effects that need not wait for a write.
func (w *writing) mark() int { return len(w.effects) }

func (w *writing) reset(mark int) { w.effects = w.effects[:mark] }

// fail tells everybody who waits that nothing more will be written.
func (w *writing) fail(err error) {
	w.done.err = err
	close(w.done.over)
	w.done = newOutcome()
	clear(w.keys)
	w.effects = nil
}

// batch is a set of keys that are written together, and the effects that wait for them.
type batch struct {
	puts    map[string][]byte
	deletes []string
	effects []pending
	done    *outcome
}

// take removes and returns what has to be written now, with the present values.
func (m *Manager) take() (b batch, err error) {
	b = batch{puts: make(map[string][]byte), effects: m.writing.effects, done: m.writing.done}
	for _, key := range slices.Sorted(maps.Keys(m.writing.keys)) {
		name := m.writing.keys[key][0]
		var value []byte
		if e := m.jobs[name]; e != nil {
			if value, err = e.master.Record(m.writing.keys[key][1]); err != nil {
				return b, err
			}
		}
		if value == nil {
			b.deletes = append(b.deletes, key)
		} else {
			b.puts[key] = value
		}
	}
	m.writing.keys, m.writing.effects, m.writing.done = make(map[string][2]string), nil, newOutcome()
	return b, nil
}

// flush starts to write, unless a batch is being written already.
func (m *Manager) flush() {
	if m.writing.busy || len(m.writing.keys)+len(m.writing.effects) == 0 {
		return
	}
	m.writing.busy = true
	go m.write() // ends when all is written, or when Run has ended
}

// write writes one batch after the other until there is nothing left to write.
func (m *Manager) write() {
	for {
		m.mu.Lock()
		client := m.client
		if client == nil || len(m.writing.keys)+len(m.writing.effects) == 0 {
			m.writing.busy = false
			m.mu.Unlock()
			return
		}
		b, err := m.take()
		m.writing.under = b.done
		m.mu.Unlock()
		if err == nil {
			err = m.writeBatch(client, b)
		}
		m.do(func(time.Time) {
			if err != nil { // Run has ended, or a record could not be made
				m.config.Logger.Error("jobs are not written", "error", err)
				m.left()
			} else {
				m.perform(b)
			}
			b.done.err = err
			close(b.done.over)
		})
	}
}

// writeBatch writes the batch completely; an error says that Run has ended.
//
// The order matters, because a manager that takes over may find only a part of the batch. A job's header is written
// before its parts: whoever finds a header does to the parts what it says, but from a part that is newer than its
// header nobody could tell why. Deletions come last: a part that was counted into the job's header is no longer needed
// once that header is written. Of a job that is forgotten the header is deleted first, because without it the rest
// belongs to nobody; a header whose versions were gone could not be read.
func (m *Manager) writeBatch(client masters, b batch) error {
	put := func(key string) error { return client.Put(context.Background(), key, b.puts[key]) }
	remove := func(key string) error { return client.Delete(context.Background(), key) }
	written, parts := headersFirst(slices.Sorted(maps.Keys(b.puts)))
	deleted, rest := headersFirst(b.deletes)
	for _, stage := range []struct {
		keys  []string
		write func(key string) error
	}{{written, put}, {parts, put}, {deleted, remove}, {rest, remove}} {
		if err := m.each(client, stage.keys, stage.write); err != nil {
			return err
		}
	}
	return nil
}

// headersFirst separates the keys of headers from the other keys.
func headersFirst(keys []string) (headers, rest []string) {
	for _, key := range keys {
		if isHeader(key) {
			headers = append(headers, key)
		} else {
			rest = append(rest, key)
		}
	}
	return headers, rest
}

func isHeader(key string) bool {
	return strings.HasSuffix(key, "/"+core.HeaderKey) && strings.Count(key, "/") == 2
}

// each writes all keys, writesMax at the same time, and repeats what failed until everything is written or Run has
// ended.
func (m *Manager) each(client masters, keys []string, write func(key string) error) error {
	for len(keys) > 0 {
		var mu sync.Mutex
		var failed []string
		var last error
		for page := range slices.Chunk(keys, writesMax) {
			var group sync.WaitGroup
			for _, key := range page {
				group.Go(func() {
					if err := write(key); err != nil {
						mu.Lock()
						defer mu.Unlock()
						failed, last = append(failed, key), err
					}
				})
			}
			group.Wait()
		}
		if keys = failed; len(keys) == 0 {
			return nil
		}
		if err := client.Acknowledge(api.Status{}); err != nil { // of no status; it tells whether Run goes on
			return err
		}
		m.config.Logger.Warn("the store refuses; it is tried again", "keys", len(keys), "first", keys[0], "error", last)
		pause.For(context.Background(), retryPause)
	}
	return nil
}

// perform performs the effects that have waited for a batch.
func (m *Manager) perform(b batch) {
	for _, one := range b.effects {
		if m.client == nil {
			return
		}
		if err := m.performOne(one); err != nil {
			m.left()
		}
	}
}

func (m *Manager) performOne(one pending) error {
	switch effect := one.effect.(type) {
	case core.Dispatch:
		return m.launch(effect.Task)
	case core.Kill:
		return m.client.Kill(effect.Task)
	case core.Acknowledge:
		return m.client.Acknowledge(effect.Status)
	case core.Forgotten:
		if e := m.jobs[one.name]; e != nil && e.master.Gone {
			m.remove(one.name)
		}
	}
	return nil
}
