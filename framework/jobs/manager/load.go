package manager

import (
	"context"
	"iter"
	"runtime"
	"sync"
	"time"

	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/internal/jobs/core"
	"github.com/tenderhq/tender/framework/internal/jobs/writes"
)

// loadJobs takes over the jobs in the store. A job that can't be read is logged and left as it is; it stops no other job.
func (m *Manager) loadJobs(ctx context.Context, client masters) error {
	began := time.Now()
	loads, err := readAll(client.All(ctx, writes.Prefix), began)
	if err != nil {
		return err
	}
	m.do(func(now time.Time) {
		for _, one := range loads {
			m.loadJob(one, now)
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
			for one := range whole {
				one.master, one.left, one.err = core.Load(now, one.records)
			}
		})
	}
	for one, failed := range byJob(entries) {
		if err = failed; err != nil {
			break
		}
		list = append(list, one)
		whole <- one
	}
	close(whole)
	workers.Wait()
	return list, err
}

// byJob groups the entries of each job, which follow each other.
func byJob(entries iter.Seq2[framework.Entry, error]) iter.Seq2[*loading, error] {
	return func(yield func(*loading, error) bool) {
		var last *loading
		for one, err := range entries {
			if err != nil {
				yield(nil, err)
				return
			}
			name, key := writes.SplitKey(one.Key)
			if last != nil && last.name != name && !yield(last, nil) {
				return
			}
			if last == nil || last.name != name {
				last = &loading{name: name, records: make(map[string][]byte)}
			}
			last.records[key] = one.Value
		}
		if last != nil {
			yield(last, nil)
		}
	}
}

// loadJob takes over a job, or reserves its name if it can't be read.
func (m *Manager) loadJob(one *loading, now time.Time) {
	if one.err != nil {
		m.config.Logger.Error("a job in the store can't be read", "job", one.name, "error", one.err)
		m.keeper.Claim(one.name) // so that nobody overwrites it
		return
	}
	m.keeper.Load(one.name, one.master, one.left, now)
}
