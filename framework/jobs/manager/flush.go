package manager

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/internal/jobs/core"
	"github.com/tenderhq/tender/framework/jobs"
)

// prefix is how all keys of jobs begin; the job's name follows.
const prefix = "jobs/"

func keyOf(name, key string) string { return prefix + name + "/" + key }

// writesMax is how many keys are written at the same time; more wait.
const writesMax = 64

// How much of each of the store's bounds a write has to leave free, in percent. A store that is nearly full takes no new
// jobs; the jobs that it has go on; and what ends a job has the last of the room to itself.
const (
	freeForAll  = 20 // left by a new job, and by a new version of one
	freeForEnds = 5  // left by what a running job writes
)

// writing is what has to be written to the store, and the effects that wait for it. One batch is written at a time;
// meanwhile the next one grows. Jobs that the store has refused to take are set aside, and hold up no other job.
type writing struct {
	keys    map[string][2]string // to be written: the job's name and the key below it
	effects []pending            // effects that wait for these keys
	aside   map[string]*aside    // by job
	again   time.Time            // when the jobs that were set aside are tried again; zero: there are none
	done    *outcome             // outcome of this batch
	busy    chan struct{}        // closed when the last batch is written; nil: none is being written
	under   *outcome             // outcome of the batch that is being written
}

type pending struct {
	name   string
	effect core.Effect
}

// outcome tells what has become of a batch.
type outcome struct {
	over    chan struct{}
	err     error            // nothing more is written; may be read once over is closed, as refused
	refused map[string]error // by job: why the store has not taken it
}

func newOutcome() *outcome { return &outcome{over: make(chan struct{})} }

func newWriting() writing {
	return writing{keys: make(map[string][2]string), aside: make(map[string]*aside), done: newOutcome()}
}

// outcomeOfAll returns the outcome of everything that has to be written by now; nil: there is nothing to write.
func (w *writing) outcomeOfAll() *outcome {
	switch {
	case len(w.keys)+len(w.effects) > 0:
		return w.done
	case w.busy != nil:
		return w.under
	}
	return nil
}

func (w *writing) markDirty(name, key string) {
	keys := w.keys
	if a := w.aside[name]; a != nil && !a.tried {
		keys = a.keys
	}
	keys[keyOf(name, key)] = [2]string{name, key}
}

func (w *writing) addEffect(name string, effect core.Effect) {
	list := w.effectsOf(name)
	*list = append(*list, pending{name, effect})
}

// effectsOf returns the list of effects that those of the job are added to.
func (w *writing) effectsOf(name string) *[]pending {
	if a := w.aside[name]; a != nil && !a.tried {
		return &a.effects
	}
	return &w.effects
}

// mark and reset remove effects of a job that need not wait for a write.
func (w *writing) mark(name string) int { return len(*w.effectsOf(name)) }

func (w *writing) reset(name string, mark int) {
	list := w.effectsOf(name)
	*list = (*list)[:mark]
}

// failAll tells everybody who waits that nothing more will be written.
func (w *writing) failAll(err error) {
	w.done.err = err
	close(w.done.over)
	w.done = newOutcome()
	clear(w.keys)
	clear(w.aside)
	w.effects = nil
}

// batch is a set of keys that are written together, and the effects that wait for them.
type batch struct {
	gone    []string // keys of jobs that are forgotten; to be deleted
	puts    map[string]put
	deletes []string
	effects []pending
	done    *outcome
	keys    map[string][2]string // all of them
	refused map[string]error     // by job: why it is not stored
}

// put is a value that is to be written.
type put struct {
	value    []byte
	keepFree int // percent of each bound
}

// takeBatch removes and returns what has to be written now, with the present values.
func (m *Manager) takeBatch() batch {
	b := batch{puts: make(map[string]put), effects: m.writing.effects, done: m.writing.done, keys: m.writing.keys, refused: make(map[string]error)}
	for _, key := range slices.Sorted(maps.Keys(b.keys)) {
		name, part := b.keys[key][0], b.keys[key][1]
		e := m.jobs[name]
		if e == nil || e.master.Gone {
			b.gone = append(b.gone, key)
			continue
		}
		value, err := e.master.Record(part)
		switch {
		case err != nil:
			b.refused[name] = err
		case value == nil:
			b.deletes = append(b.deletes, key)
		case e.master.Phase == jobs.Running:
			b.puts[key] = put{value, freeForEnds}
		case e.master.Phase == jobs.Deleting && !isHeader(key): // it is deleted soon; who takes over asks what has become of the tasks
		default:
			b.puts[key] = put{value: value}
		}
	}
	m.writing.keys, m.writing.effects, m.writing.done = make(map[string][2]string), nil, newOutcome()
	return b
}

// startWriting starts to write, unless a batch is being written already.
func (m *Manager) startWriting() {
	if m.writing.busy != nil || len(m.writing.keys)+len(m.writing.effects) == 0 {
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
		if client == nil || len(m.writing.keys)+len(m.writing.effects) == 0 {
			close(m.writing.busy)
			m.writing.busy = nil
			m.mu.Unlock()
			return
		}
		b := m.takeBatch()
		m.writing.under = b.done
		m.mu.Unlock()
		err := writeBatch(client, b)
		m.do(func(now time.Time) {
			if err != nil { // Run has ended, or others have the jobs
				m.config.Logger.Error("jobs are not written", "error", err)
				m.endSession()
			} else {
				m.setAside(b, now)
				m.performEffects(b)
				m.takeBack(b)
			}
			b.done.err, b.done.refused = err, b.refused
			close(b.done.over)
		})
	}
}

// writeBatch writes the batch, and notes which jobs the store refuses. An error says that Run has ended, or that another
// manager was active meanwhile.
//
// The order matters, because a manager that takes over may find only a part of the batch. A job's header is written
// before its parts: whoever finds a header does to the parts what it says, but from a part that is newer than its
// header nobody could tell why. Deletions come last: a part that was counted into the job's header is no longer needed
// once that header is written. Of a job that is forgotten the header is deleted first, because without it the rest
// belongs to nobody; a header whose versions were gone could not be read. Jobs that are forgotten come before all
// others, because they make room.
func writeBatch(client masters, b batch) error {
	put := func(key string) error {
		return client.Put(context.Background(), key, b.puts[key].value, b.puts[key].keepFree)
	}
	remove := func(key string) error { return client.Delete(context.Background(), key) }
	headers, others := headersFirst(b.gone)
	written, parts := headersFirst(slices.Sorted(maps.Keys(b.puts)))
	deleted, rest := headersFirst(b.deletes)
	for _, stage := range []struct {
		keys  []string
		write func(key string) error
	}{{headers, remove}, {others, remove}, {written, put}, {parts, put}, {deleted, remove}, {rest, remove}} {
		if err := b.each(client, stage.keys, stage.write); err != nil {
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

// each writes all keys, writesMax at the same time, but for those of jobs that were refused already. What fails is not
// repeated here: the client repeats what may succeed by itself, and waits while nobody leads. Anything else would be
// refused again. An error says that Run has ended.
func (b *batch) each(client masters, keys []string, write func(key string) error) error {
	keys = slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return b.refused[b.keys[key][0]] != nil })
	for page := range slices.Chunk(keys, writesMax) {
		wrong := make([]error, len(page))
		var group sync.WaitGroup
		for i, key := range page {
			group.Go(func() { wrong[i] = write(key) })
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
			b.refused[b.keys[page[i]][0]] = err
		}
	}
	return nil
}

// performEffects performs the effects that have waited for a batch, but for those of jobs that were refused.
func (m *Manager) performEffects(b batch) {
	for _, one := range b.effects {
		if m.client == nil {
			return
		}
		if b.refused[one.name] != nil {
			continue
		}
		if err := m.performOne(one); err != nil {
			m.endSession()
		}
	}
}

func (m *Manager) performOne(one pending) error {
	switch effect := one.effect.(type) {
	case core.Dispatch:
		return m.launchOffer(effect.Task)
	case core.Kill:
		return m.client.Kill(effect.Task)
	case core.Acknowledge:
		return m.client.Acknowledge(effect.Status)
	case core.Tell:
		_ = m.client.TellJob(effect.Event) // people read it, and nothing depends on it
	case core.Forgotten:
		if e := m.jobs[one.name]; e != nil && e.master.Gone {
			m.removeJob(one.name)
			m.tryAsideSoon()
		}
	}
	return nil
}
