package manager

import (
	"context"
	"iter"
	"runtime"
	"sync"
	"time"

	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/internal/jobs/core"
	"github.com/tenderhq/tender/framework/internal/jobs/keeper"
)

// loadJobs takes over the jobs in the store. A job that can't be read is logged and left as it is; it stops no other job.
func (m *Manager) loadJobs(ctx context.Context, client masters) error {
	began := time.Now()
	loads, err := readAll(client.All(ctx, keeper.Prefix), began)
	if err != nil {
		return err
	}
	m.runWork(func(now time.Time) {
		for _, loaded := range loads {
			m.loadJob(loaded, now)
		}
		m.config.Logger.Info("the jobs of the store are here", "jobs", len(m.keeper.Names()), "read", now.Sub(began), "took", time.Since(began))
		m.turn.loaded = true
	})
	return nil
}

// loading is a job that is being read from the store.
type loading struct {
	name    string
	records map[string][]byte
	master  *core.JobMaster
	left    []string // keys that are no longer needed
	err     error
}

// readAll makes the jobs from their records. It uses all processors while further records are being read: with many
// jobs this is most of what a takeover has to do.
func readAll(entries iter.Seq2[framework.Entry, error], now time.Time) (list []*loading, err error) {
	var workers sync.WaitGroup
	whole := make(chan *loading, runtime.GOMAXPROCS(0))
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for loaded := range whole {
				loaded.master, loaded.left, loaded.err = core.Load(now, loaded.records)
			}
		})
	}
	for loaded, failed := range byJob(entries) {
		if err = failed; err != nil {
			break
		}
		list = append(list, loaded)
		whole <- loaded
	}
	close(whole)
	workers.Wait()
	return list, err
}

// byJob groups the entries of each job, which follow each other.
func byJob(entries iter.Seq2[framework.Entry, error]) iter.Seq2[*loading, error] {
	return func(yield func(*loading, error) bool) {
		var last *loading
		for entry, err := range entries {
			if err != nil {
				yield(nil, err)
				return
			}
			name, key := keeper.SplitKey(entry.Key)
			if last != nil && last.name != name && !yield(last, nil) {
				return
			}
			if last == nil || last.name != name {
				last = &loading{name: name, records: make(map[string][]byte)}
			}
			last.records[key] = entry.Value
		}
		if last != nil {
			yield(last, nil)
		}
	}
}

// loadJob takes over a job, or reserves its name if it can't be read.
func (m *Manager) loadJob(loaded *loading, now time.Time) {
	if loaded.err != nil {
		m.config.Logger.Error("a job in the store can't be read", "job", loaded.name, "error", loaded.err)
		m.keeper.Claim(loaded.name) // so that nobody overwrites it
		return
	}
	m.keeper.Load(loaded.name, loaded.master, loaded.left, now)
}
