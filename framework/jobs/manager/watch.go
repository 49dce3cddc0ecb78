package manager

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/framework/jobs/internal/core"
)

const (
	// watchersMax bounds those who watch all jobs at a time: what each is still to be told is remembered. One more is
	// refused (Limit).
	watchersMax = 64
	// newsMax bounds how many jobs are told of at once, as all others wait meanwhile.
	newsMax = 256
)

var errWatchers = errors.New("too many watch all jobs already; watch one by its name, or try again later")

// watches are those who wait for changes of jobs.
type watches struct {
	changed map[string]chan struct{} // of jobs that are watched alone; closed and forgotten when the job has changed
	all     map[*jobsWatch]bool      // who watches all jobs, or those of a prefix
}

// jobsWatch is somebody who watches the jobs of a prefix.
type jobsWatch struct {
	prefix string
	news   map[string]bool // names of jobs that have changed since he was told
	wake   chan struct{}   // of one element: there is news, or no more will come
}

func newWatches() watches {
	return watches{changed: make(map[string]chan struct{}), all: make(map[*jobsWatch]bool)}
}

// change is closed when the job has changed.
func (w *watches) change(name string) <-chan struct{} {
	if w.changed[name] == nil {
		w.changed[name] = make(chan struct{})
	}
	return w.changed[name]
}

// tell wakes those who watch the job.
func (w *watches) tell(name string) {
	if changed := w.changed[name]; changed != nil {
		close(changed)
		delete(w.changed, name)
	}
	for one := range w.all { // order: irrelevant because each is told by itself
		if strings.HasPrefix(name, one.prefix) {
			one.news[name] = true
			one.ring()
		}
	}
}

// tellAll wakes everybody, to find that this instance is not active any more.
func (w *watches) tellAll() {
	for name := range w.changed { // order: irrelevant because all are told
		w.tell(name)
	}
	for one := range w.all { // order: irrelevant because all are told
		one.ring()
	}
}

func (w *jobsWatch) ring() {
	select {
	case w.wake <- struct{}{}:
	default: // it is awake
	}
}

// WatchJob calls see with a job's status, and again whenever it has changed, until ctx ends or see fails, whose error it
// returns. Of several changes that follow each other the last alone is sure to be seen.
func (m *Manager) WatchJob(ctx context.Context, name string, see func(jobs.Status) error) error {
	var before jobs.Status
	for first := true; ; first = false {
		var status jobs.Status
		var changed <-chan struct{}
		err := m.look("job.watch", name, func(master *core.JobMaster) {
			status, changed = master.Status(true), m.watches.change(name)
		})
		if err != nil {
			return err
		}
		if first || !reflect.DeepEqual(before, status) {
			if err := see(status); err != nil {
				return err
			}
			before = status
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// JobsNews is what has changed of the jobs that somebody watches.
type JobsNews struct {
	Changed []jobs.Status // by name, with their notes and without their tasks
	Removed []string      // those that are deleted
	// Complete: all was told that is known by now. The first such news end the picture from which the watch begins.
	Complete bool
}

// WatchJobs calls see with all jobs whose names have the prefix, those that have ended included, and again with each that
// has changed, until ctx ends or see fails, whose error it returns. Of several changes that follow each other the last
// alone is sure to be seen. What it costs follows what changes, not how many jobs there are.
func (m *Manager) WatchJobs(ctx context.Context, prefix string, see func(JobsNews) error) error {
	watch, err := m.beginWatch(prefix)
	if err != nil {
		return err
	}
	defer m.endWatch(watch)
	for begun := false; ; begun = true {
		names, err := m.newsOf(watch)
		if err != nil {
			return err
		}
		if begun && len(names) == 0 {
			select {
			case <-watch.wake:
				continue
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err := m.tellNews(names, see); err != nil {
			return err
		}
	}
}

// beginWatch has all jobs of the prefix as its first news.
func (m *Manager) beginWatch(prefix string) (*jobsWatch, error) {
	const op = "job.watch"
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !m.loaded || m.client == nil:
		return nil, api.E(op, api.Unavailable, "", errStandby)
	case len(m.watches.all) >= watchersMax:
		return nil, api.E(op, api.Limit, "", errWatchers)
	}
	watch := &jobsWatch{prefix: prefix, news: make(map[string]bool), wake: make(chan struct{}, 1)}
	from, _ := slices.BinarySearch(m.names, prefix)
	for _, name := range m.names[from:] {
		if !strings.HasPrefix(name, prefix) {
			break
		}
		watch.news[name] = true
	}
	m.watches.all[watch] = true
	return watch, nil
}

func (m *Manager) endWatch(watch *jobsWatch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.watches.all, watch)
}

// newsOf takes out the names of the jobs that have changed, sorted.
func (m *Manager) newsOf(watch *jobsWatch) (names []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.client == nil {
		return nil, api.E("job.watch", api.Unavailable, "", errStandby)
	}
	names = slices.Sorted(maps.Keys(watch.news))
	clear(watch.news)
	return names, nil
}

// tellNews tells of jobs, some at a time.
func (m *Manager) tellNews(names []string, see func(JobsNews) error) error {
	for {
		page := names[:min(len(names), newsMax)]
		names = names[len(page):]
		news := m.statuses(page)
		news.Complete = len(names) == 0
		if err := see(news); err != nil || news.Complete {
			return err
		}
	}
}

// statuses are the jobs of these names as they are.
func (m *Manager) statuses(names []string) (news JobsNews) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		e := m.jobs[name]
		if e == nil {
			news.Removed = append(news.Removed, name)
			continue
		}
		status := e.master.Status(false)
		status.Notes = slices.Clone(e.master.Notes)
		news.Changed = append(news.Changed, status)
	}
	return news
}
