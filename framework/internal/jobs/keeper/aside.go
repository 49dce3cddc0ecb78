package keeper

import (
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/internal/jobs/core"
)

// A job that the store refuses to take, because the store is full or because the job has become too large for it, is
// set aside: nothing of it begins or is acknowledged, its status says why, and all other jobs go on. What runs of it
// goes on too. It is tried again after Again, sooner when a job was deleted, and at once when a person asks something
// of it.

const (
	// Again is after how long the jobs that were set aside are tried again.
	Again = 10 * time.Second
	// asideSoon is after how long they are tried again when a job was deleted, so that many deletions cause few tries.
	asideSoon = time.Second
)

// aside is a job that the store has refused to take.
type aside struct {
	why     error
	tried   bool              // it is a part of what is being written, to see whether it is refused again
	keys    map[string]record // what of it is to be written
	effects []effect          // effects that wait for these keys
}

// Aside returns why the job is set aside; nil: it is not.
func (w *writes) Aside(name string) error {
	if a := w.aside[name]; a != nil {
		return a.why
	}
	return nil
}

// setAside sets a job aside that was refused: it collects all that is to be written and done for it. It returns the tasks
// that were to be launched, of which none is.
func (w *writes) setAside(name string, b *Batch, now time.Time) (dropped []api.TaskID) {
	fresh := &aside{why: b.refused[name], keys: make(map[string]record)}
	for _, keys := range []map[string]record{b.keys, w.keys} {
		for key, of := range keys { // order: irrelevant because they are put into a map
			if of.job == name {
				fresh.keys[key] = of
			}
		}
	}
	maps.DeleteFunc(w.keys, func(_ string, of record) bool { return of.job == name })
	take := func(its effect) {
		if launch, is := its.Effect.(core.Dispatch); is {
			dropped = append(dropped, launch.Task)
		} else {
			fresh.effects = append(fresh.effects, its)
		}
	}
	for _, its := range b.effects {
		if its.job == name {
			take(its)
		}
	}
	w.effects = slices.DeleteFunc(w.effects, func(its effect) bool {
		if its.job == name {
			take(its)
		}
		return its.job == name
	})
	w.aside[name] = fresh
	if w.again.IsZero() {
		w.again = now.Add(Again)
	}
	return dropped
}

// TryAside has a job that was set aside written together with what is written next.
func (w *writes) TryAside(name string) {
	a := w.aside[name]
	if a == nil || a.tried {
		return
	}
	a.tried = true
	maps.Copy(w.keys, a.keys)
	w.effects = append(w.effects, a.effects...)
	a.keys, a.effects = nil, nil
}

// tryAllAside tries the jobs again that were set aside, when it is time.
func (w *writes) tryAllAside(now time.Time) {
	if w.again.IsZero() || w.again.After(now) {
		return
	}
	w.again = time.Time{}
	for _, name := range slices.Sorted(maps.Keys(w.aside)) {
		w.TryAside(name)
	}
}

// trySoon is called when a job was deleted, which has made room.
func (w *writes) trySoon(now time.Time) {
	if soon := now.Add(asideSoon); soon.Before(w.again) {
		w.again = soon
	}
}

// readmit ends that jobs are set aside which the store has taken now, and returns their names.
func (w *writes) readmit(b *Batch) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(w.aside)) {
		if w.aside[name].tried && b.refused[name] == nil && b.has(name) {
			delete(w.aside, name)
			names = append(names, name)
		}
	}
	return names
}

// has reports whether something of the job was in the batch.
func (b *Batch) has(name string) bool {
	for _, of := range b.keys { // order: irrelevant because one is enough
		if of.job == name {
			return true
		}
	}
	return slices.ContainsFunc(b.effects, func(its effect) bool { return its.job == name })
}
