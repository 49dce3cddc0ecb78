package manager

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/internal/jobs/core"
	"github.com/tenderhq/tender/framework/jobs"
)

const (
	// watchersMax bounds the watchers of all jobs at a time, because what each of them has yet to be told is
	// remembered. One more is refused (Limit).
	watchersMax = 64
	// newsMax bounds how many jobs are told at once, because everybody else waits meanwhile.
	newsMax = 256
)

var errWatchers = errors.New("too many watch all jobs already; watch one by its name, or try again later")

// watches holds those who wait for changes of jobs.
type watches struct {
	changed map[string]chan struct{} // by watched job; closed and removed when the job has changed
	all     map[*jobsWatch]bool      // the watchers of all jobs, or of the jobs with a prefix
}

// jobsWatch is a watcher of the jobs with a prefix.
type jobsWatch struct {
	prefix string
	who    caller
	news   map[string]bool // names of jobs that have changed since the watcher was told last
	told   map[string]bool // names of the jobs of which the watcher knows
	wake   chan struct{}   // capacity 1: there is news, or no more will come
}

func newWatches() watches {
	return watches{changed: make(map[string]chan struct{}), all: make(map[*jobsWatch]bool)}
}

// change returns a channel that is closed when the job has changed.
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
	for watch := range w.all { // order: irrelevant because each is told by itself
		if strings.HasPrefix(name, watch.prefix) {
			watch.news[name] = true
			watch.ring()
		}
	}
}

// tellAll wakes all watchers, who then find that this instance is no longer active.
func (w *watches) tellAll() {
	for name := range w.changed { // order: irrelevant because all are told
		w.tell(name)
	}
	for watch := range w.all { // order: irrelevant because all are told
		watch.ring()
	}
}

func (w *jobsWatch) ring() {
	select {
	case w.wake <- struct{}{}:
	default: // it is awake already
	}
}

// WatchJob calls see with a job's status, and again whenever the job has changed. It returns when ctx ends, or when see
// fails, with that error. Of several changes in quick succession only the last is sure to be seen.
func (m *Manager) WatchJob(ctx context.Context, name string, see func(jobs.Status) error) error {
	var before jobs.Status
	for first := true; ; first = false {
		var status jobs.Status
		var changed <-chan struct{}
		err := m.lookAtJob(ctx, "job.watch", name, func(master *core.JobMaster) {
			status, changed = m.statusOf(master, true), m.watches.change(name)
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

// JobsNews is what a watcher of jobs is told at once.
type JobsNews struct {
	Changed []jobs.Status // by name, with their notes, without their tasks
	Removed []string      // names of jobs that were deleted
	// Complete says that everything that is known by now has been told. The first news with Complete end the initial
	// picture.
	Complete bool
}

// WatchJobs calls see with all jobs whose names have the prefix, including ended ones, and again with each that has
// changed. It returns when ctx ends, or when see fails, with that error. Of several changes in quick succession only
// the last is sure to be seen. Its cost depends on how much changes, not on how many jobs there are.
func (m *Manager) WatchJobs(ctx context.Context, prefix string, see func(JobsNews) error) error {
	watch, err := m.beginWatch(callerOf(ctx), prefix)
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
		if err := m.tellNews(watch, names, see); err != nil {
			return err
		}
	}
}

// beginWatch starts a watch whose first news are all jobs with the prefix.
func (m *Manager) beginWatch(who caller, prefix string) (*jobsWatch, error) {
	const op = "job.watch"
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !m.isServing():
		return nil, api.E(op, api.Unavailable, "", errStandby)
	case len(m.watches.all) >= watchersMax:
		return nil, api.E(op, api.Limit, "", errWatchers)
	}
	watch := &jobsWatch{prefix: prefix, who: who, news: make(map[string]bool), told: make(map[string]bool), wake: make(chan struct{}, 1)}
	from, _ := slices.BinarySearch(m.keeper.Names(), prefix)
	for _, name := range m.keeper.Names()[from:] {
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

// newsOf removes and returns the names of the jobs that have changed, sorted.
func (m *Manager) newsOf(watch *jobsWatch) (names []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.isServing() {
		return nil, api.E("job.watch", api.Unavailable, "", errStandby)
	}
	names = slices.Sorted(maps.Keys(watch.news))
	clear(watch.news)
	return names, nil
}

// tellNews tells the watcher of these jobs, newsMax at a time.
func (m *Manager) tellNews(watch *jobsWatch, names []string, see func(JobsNews) error) error {
	for {
		page := names[:min(len(names), newsMax)]
		names = names[len(page):]
		news := m.statusesFor(watch, page)
		news.Complete = len(names) == 0
		if err := see(news); err != nil || news.Complete {
			return err
		}
	}
}

// statusesFor returns the present statuses of the jobs with these names, as far as the watcher may see them. For others,
// and for those that it may see no more, they are not there.
func (m *Manager) statusesFor(watch *jobsWatch, names []string) (news JobsNews) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		master := m.keeper.Job(name)
		if master == nil || !m.maySee(watch.who, master.Job.Role) {
			if watch.told[name] {
				news.Removed = append(news.Removed, name)
				delete(watch.told, name)
			}
			continue
		}
		watch.told[name] = true
		status := m.statusOf(master, false)
		status.Notes = slices.Clone(master.Notes)
		news.Changed = append(news.Changed, status)
	}
	return news
}
