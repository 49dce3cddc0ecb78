package manager

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/framework/jobs/internal/core"
)

// load takes over the jobs of the store. What cannot be read is told, left as it is, and stops no other job.
func (m *Manager) load(ctx context.Context, client masters) error {
	entries, err := client.List(ctx, prefix)
	if err != nil {
		return err
	}
	records := make(map[string]map[string][]byte)
	for _, one := range entries {
		name, key, _ := strings.Cut(strings.TrimPrefix(one.Key, prefix), "/")
		if records[name] == nil {
			records[name] = make(map[string][]byte)
		}
		records[name][key] = one.Value
	}
	m.do(func(now time.Time) {
		defer func() {
			m.config.Logger.Info("the jobs of the store are here", "jobs", len(m.jobs), "took", time.Since(now))
		}()
		for name, keys := range records { // order: irrelevant because each is made by itself
			m.loadJob(name, keys, now)
		}
		slices.SortFunc(m.endings, func(a, b ending) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.name, b.name)) })
		m.loaded = true
	})
	return nil
}

func (m *Manager) loadJob(name string, records map[string][]byte, now time.Time) {
	if records[core.HeaderKey] == nil { // what is left of one whose deletion was not finished, or which was never answered
		for key := range records { // order: irrelevant because all are deleted
			m.writing.dirty(name, key)
		}
		return
	}
	master, left, err := core.Load(now, records)
	if err != nil {
		m.config.Logger.Error("a job in the store can't be read", "job", name, "error", err)
		m.claimed[name] = true // so that nobody writes over it
		return
	}
	e := &entry{name: name, master: master}
	m.jobs[name] = e
	for _, key := range left {
		m.writing.dirty(name, key)
	}
	if master.Phase.Ended() {
		m.endings = append(m.endings, ending{name, master.Run, master.EndedAt})
	}
	m.noteChange(e)
	m.planRuns(e, now)
}
