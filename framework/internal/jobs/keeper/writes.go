package keeper

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/framework/internal/jobs/core"
	"github.com/tenderhq/tender/framework/jobs"
)

// Prefix is how all keys of jobs begin; the job's name follows.
const Prefix = "jobs/"

// keyOf returns the key in the store of a record of the job.
func keyOf(name, record string) string { return Prefix + name + "/" + record }

// SplitKey returns the job and the record that a key is of.
func SplitKey(key string) (name, record string) {
	name, record, _ = strings.Cut(strings.TrimPrefix(key, Prefix), "/")
	return name, record
}

// How much of each of the store's bounds a write has to leave free, in percent. A store that is nearly full takes no new
// jobs; the jobs that it has go on; and what ends a job has the last of the room to itself.
const (
	freeForAll  = 20 // left by a new job, and by a new version of one
	freeForEnds = 5  // left by what a running job writes
)

// writes are what has to be written, and the effects that wait for it. One batch is written at a time; meanwhile the next
// one grows. A job that the store refuses is set aside, and holds up no other.
type writes struct {
	keys    map[string]record // to be written
	effects []effect          // effects that wait for these keys
	aside   map[string]*aside // by job
	again   time.Time         // when the jobs that were set aside are tried again; zero: there are none
}

// record is what a key stands for.
type record struct{ job, name string }

// effect is an effect of a job that waits until all that was to be written before it is in the store.
type effect struct {
	job string
	core.Effect
}

// Any reports whether there is something to write, or an effect to perform.
func (w *writes) Any() bool { return len(w.keys)+len(w.effects) > 0 }

// markDirty says that the job's record is not in the store as it should be.
func (w *writes) markDirty(name, what string) {
	keys := w.keys
	if a := w.aside[name]; a != nil && !a.tried {
		keys = a.keys
	}
	keys[keyOf(name, what)] = record{name, what}
}

// effectsOf returns the list of effects that those of the job are added to. They wait for all that is to be written by now.
func (w *writes) effectsOf(name string) *[]effect {
	if a := w.aside[name]; a != nil && !a.tried {
		return &a.effects
	}
	return &w.effects
}

// Batch is a set of keys that are written together, and the effects that wait for them.
type Batch struct {
	effects []effect
	refused map[string]error // by job: why it is not stored
	keys    map[string]record
	gone    []string // keys of jobs that are forgotten; to be deleted
	puts    map[string]Write
	deletes []string
}

// Write is one write into the store.
type Write struct {
	Key      string
	Delete   bool
	Value    []byte
	KeepFree int // percent of each bound
}

// TakeBatch removes and returns what has to be written now, with the present values. When it is written, call
// [Keeper.Written]; if nothing more can be written, [Keeper.Unwritten].
func (k *Keeper) TakeBatch() *Batch {
	k.busy, k.under, k.grows = true, k.grows, nil
	b := &Batch{puts: make(map[string]Write), effects: k.effects, keys: k.keys, refused: make(map[string]error)}
	for _, key := range slices.Sorted(maps.Keys(b.keys)) {
		of := b.keys[key]
		m := k.Job(of.job)
		if m == nil || m.Gone {
			b.gone = append(b.gone, key)
			continue
		}
		value, err := m.Record(of.name)
		switch {
		case err != nil:
			b.refused[of.job] = err
		case value == nil:
			b.deletes = append(b.deletes, key)
		case m.Phase == jobs.Running:
			b.puts[key] = Write{Key: key, Value: value, KeepFree: freeForEnds}
		case m.Phase == jobs.Deleting && !isHeader(key): // it is deleted soon; who takes over asks what has become of the tasks
		default:
			b.puts[key] = Write{Key: key, Value: value}
		}
	}
	k.keys, k.effects = make(map[string]record), nil
	return b
}

// Stages returns the writes of the batch. Those of one stage may be made in any order; a stage begins when the one before
// it has ended.
//
// The order matters, because a manager that takes over may find only a part of the batch. A job's header is written
// before its parts: whoever finds a header does to the parts what it says, but from a part that is newer than its
// header nobody could tell why. Deletions come last: a part that was counted into the job's header is no longer needed
// once that header is written. Of a job that is forgotten the header is deleted first, because without it the rest
// belongs to nobody; a header whose versions were gone could not be read. Jobs that are forgotten come before all
// others, because they make room.
func (b *Batch) Stages() (stages [][]Write) {
	add := func(keys []string, write func(key string) Write) {
		var headers, rest []Write
		for _, key := range keys {
			if change := write(key); isHeader(key) {
				headers = append(headers, change)
			} else {
				rest = append(rest, change)
			}
		}
		stages = append(stages, headers, rest)
	}
	remove := func(key string) Write { return Write{Key: key, Delete: true} }
	add(b.gone, remove)
	add(slices.Sorted(maps.Keys(b.puts)), func(key string) Write { return b.puts[key] })
	add(b.deletes, remove)
	return stages
}

func isHeader(key string) bool {
	return strings.HasSuffix(key, "/"+core.HeaderKey) && strings.Count(key, "/") == 2
}

// Refuse says that the store has refused a write of the batch. No more is written of the key's job.
func (b *Batch) Refuse(key string, why error) { b.refused[b.keys[key].job] = why }

// IsRefused reports whether the job of the key was refused.
func (b *Batch) IsRefused(key string) bool { return b.refused[b.keys[key].job] != nil }
