package manager

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/framework/internal/jobs/core"
	"github.com/tenderhq/tender/framework/jobs"
)

// A job that the store refuses to take, because the store is full or because the job has become too large for it, is
// set aside: nothing of it begins or is acknowledged, its status says why, and all other jobs go on. What runs of it
// goes on too. It is tried again after asideAgain, sooner when a job was deleted, and at once when a person asks
// something of it.

const (
	// asideAgain is after how long the jobs that were set aside are tried again.
	asideAgain = 10 * time.Second
	// asideSoon is after how long they are tried again when a job was deleted, so that many deletions cause few tries.
	asideSoon = time.Second
)

// aside is a job that the store has refused to take.
type aside struct {
	why     error
	tried   bool                 // it is a part of what is being written, to see whether it is refused again
	keys    map[string][2]string // what of it is to be written
	effects []pending            // effects that wait for these keys
}

// setAside sets the jobs aside that were refused. Of their tasks that were to be launched none is.
func (m *Manager) setAside(b batch, now time.Time) {
	for _, name := range slices.Sorted(maps.Keys(b.refused)) {
		m.config.Logger.Warn("a job is set aside", "job", name, "error", b.refused[name])
		a := m.writing.setAside(name, b)
		e := m.jobs[name]
		var dropped []pending
		dropped, a.effects = separate(a.effects, func(one pending) bool { _, is := one.effect.(core.Dispatch); return is })
		for _, one := range dropped {
			task := one.effect.(core.Dispatch).Task //nolint:forcetypeassert // they were chosen by their type
			m.giveBackUnused(m.flights.leave(task))
			if e != nil {
				m.stepJob(e, now, core.Undispatched{Task: task, Why: "the store refuses to take its job"})
			}
		}
		if e != nil {
			m.noteChange(e)
		}
		if m.writing.again.IsZero() {
			m.writing.again = now.Add(asideAgain)
		}
	}
}

// setAside collects all that is to be written and done for a job.
func (w *writing) setAside(name string, b batch) *aside {
	fresh := &aside{why: b.refused[name], keys: make(map[string][2]string)}
	isIts := func(one pending) bool { return one.name == name }
	for _, keys := range []map[string][2]string{b.keys, w.keys} {
		for key, of := range keys { // order: irrelevant because they are put into a map
			if of[0] == name {
				fresh.keys[key] = of
			}
		}
	}
	maps.DeleteFunc(w.keys, func(_ string, of [2]string) bool { return of[0] == name })
	first, _ := separate(b.effects, isIts)
	next, others := separate(w.effects, isIts)
	fresh.effects, w.effects = append(first, next...), others
	w.aside[name] = fresh
	return fresh
}

// separate returns the elements that are chosen, and the others.
func separate(list []pending, choose func(pending) bool) (chosen, others []pending) {
	for _, one := range list {
		if choose(one) {
			chosen = append(chosen, one)
		} else {
			others = append(others, one)
		}
	}
	return chosen, others
}

// tryAside has a job that was set aside written together with what is written next.
func (w *writing) tryAside(name string) {
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
func (m *Manager) tryAllAside(now time.Time) {
	if m.writing.again.IsZero() || m.writing.again.After(now) {
		return
	}
	m.writing.again = time.Time{}
	for _, name := range slices.Sorted(maps.Keys(m.writing.aside)) {
		m.writing.tryAside(name)
	}
}

// tryAsideSoon is called when a job was deleted, which has made room.
func (m *Manager) tryAsideSoon() {
	if soon := time.Now().Add(asideSoon); soon.Before(m.writing.again) {
		m.writing.again = soon
	}
}

// takeBack ends that jobs are set aside which the store has taken now.
func (m *Manager) takeBack(b batch) {
	for name, a := range m.writing.aside { // order: irrelevant because each is by itself
		if !a.tried || b.refused[name] != nil || !b.has(name) {
			continue
		}
		delete(m.writing.aside, name)
		m.config.Logger.Info("a job that was set aside is stored again", "job", name)
		if e := m.jobs[name]; e != nil {
			m.noteChange(e)
		}
	}
}

// has reports whether something of the job was in the batch.
func (b *batch) has(name string) bool {
	for _, of := range b.keys { // order: irrelevant because one is enough
		if of[0] == name {
			return true
		}
	}
	return slices.ContainsFunc(b.effects, func(one pending) bool { return one.name == name })
}

// statusOf returns a job as it is shown to people.
func (m *Manager) statusOf(e *entry, tasks bool) jobs.Status {
	status := e.master.Status(tasks)
	if err := m.roles.refused[status.Role]; err != nil && !status.Phase.Ended() {
		status.Why = fmt.Sprintf("the job manager can't run in role %s: %v", status.Role, err)
	}
	if a := m.writing.aside[e.name]; a != nil {
		status.Why = fmt.Sprintf("set aside, for the store refuses to take it: %v; it is tried again every %v, and when a job is deleted", a.why, asideAgain)
	}
	return status
}
