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

// The keys of a job begin with prefix and its name.
const prefix = "jobs/"

func keyOf(name, key string) string { return prefix + name + "/" + key }

// writesMax is how many keys are written at a time. More wait.
const writesMax = 64

// retryPause is how long a write that was refused waits for another try.
const retryPause = time.Second

// writing is what is to be written, and what waits for it. One batch is written at a time; meanwhile the next one grows.
type writing struct {
	keys    map[string][2]string // to be written: the job's name and the key in it
	effects []pending            // that wait for them
	done    *outcome             // of this batch
	busy    bool                 // a batch is being written
	under   *outcome             // of that batch
}

type pending struct {
	name   string
	effect core.Effect
}

// outcome is what came of a batch.
type outcome struct {
	over chan struct{}
	err  error // read after over
}

func newOutcome() *outcome { return &outcome{over: make(chan struct{})} }

func newWriting() writing { return writing{keys: make(map[string][2]string), done: newOutcome()} }

// all is the outcome of all that is to be written by now; nil: there is nothing.
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

// mark and reset take back effects that need not wait.
func (w *writing) mark() int { return len(w.effects) }

func (w *writing) reset(mark int) { w.effects = w.effects[:mark] }

// fail tells whoever waits that nothing will be written any more.
func (w *writing) fail(err error) {
	w.done.err = err
	close(w.done.over)
	w.done = newOutcome()
	clear(w.keys)
	w.effects = nil
}

// batch is what is written together.
type batch struct {
	puts    map[string][]byte
	deletes []string
	effects []pending
	done    *outcome
}

// take takes out what is to be written now, as it is now.
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

// flush begins to write, if nobody does.
func (m *Manager) flush() {
	if m.writing.busy || len(m.writing.keys)+len(m.writing.effects) == 0 {
		return
	}
	m.writing.busy = true
	go m.write() // ends when all is written, or when Run has ended
}

// write writes batch after batch, until there is nothing left to write.
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
			if err != nil { // Run has ended, or a record can't be made
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

// writeBatch writes until all of it is there; an error says that Run has ended. A header goes before what else is written
// of its job: whoever finds it does what it says of the parts, and of a part that is ahead of it he knows no reason. What
// is deleted goes last: a part that was counted into the job's header is not needed once that is written. Of a job that is
// forgotten the header goes before the rest, which is nobody's without it; a header whose versions are gone would be one
// that nobody can read.
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

// headersFirst parts the keys of headers from the others.
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

// each writes all keys, some at a time, again and again until they are there or Run has ended.
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
		if err := client.Acknowledge(api.Status{}); err != nil { // of nothing: it only says whether Run goes on
			return err
		}
		m.config.Logger.Warn("the store refuses; it is tried again", "keys", len(keys), "first", keys[0], "error", last)
		pause.For(context.Background(), retryPause)
	}
	return nil
}

// perform does what had to wait for a batch.
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
