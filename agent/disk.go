package agent

import (
	"context"
	"sync"
	"time"

	"github.com/tenderhq/tender/agent/checkpoint"
	"github.com/tenderhq/tender/agent/core"
)

// writer writes records in groups: while one group is written, the next one gathers.
type writer struct {
	store checkpoint.Store
	wake  chan struct{}

	mutex   sync.Mutex
	pending group
	busy    bool // a compaction is queued or under way
}

// group is what is written at once: a compaction, if any, then records.
type group struct {
	compact []core.Record // says the same as all before it
	records []core.Record
	number  uint64 // of the last record
}

func newWriter(store checkpoint.Store) *writer {
	return &writer{store: store, wake: make(chan struct{}, 1)}
}

func (w *writer) add(number uint64, record core.Record) {
	w.mutex.Lock()
	w.pending.records = append(w.pending.records, record)
	w.pending.number = number
	w.mutex.Unlock()
}

func (w *writer) bloated() bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return !w.busy && w.store.Bloated()
}

// compact takes the place of all that waits: records say that too.
func (w *writer) compact(records []core.Record) {
	w.mutex.Lock()
	w.pending.compact, w.pending.records, w.busy = records, nil, true
	w.mutex.Unlock()
}

func (w *writer) kick() {
	w.mutex.Lock()
	nothing := w.pending.compact == nil && len(w.pending.records) == 0
	w.mutex.Unlock()
	if nothing {
		return
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *writer) take() group {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	g := w.pending
	w.pending = group{number: g.number}
	return g
}

func (w *writer) write(g group) error {
	if g.compact != nil {
		if err := w.store.Compact(g.compact); err != nil {
			return err
		}
		w.mutex.Lock()
		w.busy = false
		w.mutex.Unlock()
	}
	return w.store.Append(g.records)
}

// runWriter is the one goroutine that writes. What can't be written ends the agent:
// its executors and their tasks run on and wait for the next one.
func (a *Agent) runWriter(ctx context.Context) {
	for {
		select {
		case <-a.disk.wake:
		case <-ctx.Done():
			a.lastWords()
			return
		}
		g := a.disk.take()
		if g.compact == nil && len(g.records) == 0 {
			continue
		}
		if err := a.disk.write(g); err != nil {
			a.fail(err)
			return
		}
		a.metrics.written(len(g.records))
		if !a.happened(ctx, core.Checkpointed{Number: g.number}) {
			return
		}
	}
}

// lastWords writes what the loop had decided when it was told to end.
func (a *Agent) lastWords() {
	if err := a.disk.write(a.disk.take()); err != nil {
		a.log.Error().Err(err).Msg("the end was not written")
	}
}

// watchDisk tells the core how much room there is.
func (a *Agent) watchDisk(ctx context.Context) {
	const (
		interval   = 5 * time.Second
		lowPercent = 5
	)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var last core.DiskRoom
	for {
		room := core.DiskRoom{Full: a.store.Full(), Low: a.freePercent() < lowPercent}
		if room != last || room.Low {
			if !a.happened(ctx, room) {
				return
			}
			last = room
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
