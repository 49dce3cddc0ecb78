package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tenderhq/tender/agent/checkpoint"
	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// writer writes records in groups: while one group is written, the next one gathers.
type writer struct {
	store checkpoint.Store
	wake  chan struct{}

	// The goroutine's that writes.
	told  core.DiskRoom
	stuck bool // the agent ended while there was no room for what it had to write

	mutex   sync.Mutex
	pending group
	bytes   int           // of the records of pending
	room    chan struct{} // closed when pending is taken; nil: nobody waits for that
	busy    bool          // a compaction is queued or under way
}

// group is what is written at once: a compaction, if any, then records.
type group struct {
	compact []core.Record // says the same as all before it
	covered []core.Record // was not written when compact was made, which says it too
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
	w.bytes += recordBytes(record)
	w.mutex.Unlock()
}

// pendingBytesMax bounds the records that wait for the disk: beyond it nothing more is read from
// executors, who feel that by gRPC's flow control, until the disk has taken what waits (R34).
const pendingBytesMax = 16 << 20

func recordBytes(record core.Record) int {
	if r, is := record.(core.TaskStatus); is {
		return protocol.StatusBytes(r.Status)
	}
	return protocol.StatusBytes(api.Status{}) // the others are not an executor's to make large
}

// waitForRoom returns when no more than pendingBytesMax wait for the disk, or when the context ends.
func (w *writer) waitForRoom(ctx context.Context) {
	w.mutex.Lock()
	if w.bytes <= pendingBytesMax {
		w.mutex.Unlock()
		return
	}
	if w.room == nil {
		w.room = make(chan struct{})
	}
	room := w.room
	w.mutex.Unlock()
	select {
	case <-room:
	case <-ctx.Done():
	}
}

func (w *writer) bloated() bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return !w.busy && w.store.Bloated()
}

// compact takes the place of all that waits: records say that too.
func (w *writer) compact(records []core.Record) {
	w.mutex.Lock()
	w.pending.covered = append(w.pending.covered, w.pending.records...)
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
	w.pending, w.bytes = group{number: g.number}, 0
	if w.room != nil {
		close(w.room)
		w.room = nil
	}
	return g
}

// begin compacts, if that is to be. A disk without room for it has the records appended
// that the compaction would have covered.
func (w *writer) begin(g group) ([]core.Record, error) {
	if g.compact == nil {
		return g.records, nil
	}
	err := w.store.Compact(g.compact)
	w.mutex.Lock()
	w.busy = false
	w.mutex.Unlock()
	if errors.Is(err, checkpoint.ErrNoRoom) {
		return append(g.covered, g.records...), nil
	}
	return g.records, err
}

// diskInterval is how often the agent looks how much room there is, and how long it waits
// when there is none for what it has to write.
const (
	diskInterval = 5 * time.Second
	roomInterval = time.Second
)

// runWriter is the one goroutine that writes. What can't be written ends the agent:
// its executors and their tasks run on and wait for the next one. A disk without any
// room is no such case: nothing is said or done that is not written, so the agent waits.
func (a *Agent) runWriter(ctx context.Context) {
	ticker := time.NewTicker(diskInterval)
	defer ticker.Stop()
	a.tellRoom(ctx)
	for {
		select {
		case <-a.disk.wake:
		case <-ticker.C:
			a.tellRoom(ctx)
			continue
		case <-ctx.Done():
			a.lastWords()
			return
		}
		g := a.disk.take()
		if g.compact == nil && len(g.records) == 0 {
			continue
		}
		if err := a.write(ctx, g); err != nil {
			a.fail(err)
			return
		}
		if ctx.Err() != nil && a.disk.stuck {
			return
		}
		a.metrics.written(len(g.records))
		if a.store.Full() != a.disk.told.Full {
			a.tellRoom(ctx)
		}
		if !a.happened(ctx, core.Checkpointed{Number: g.number}) {
			return
		}
	}
}

// write writes a group, however long it takes until there is room for it.
func (a *Agent) write(ctx context.Context, g group) error {
	records, err := a.disk.begin(g)
	said := false
	for err == nil && len(records) > 0 {
		var written int
		written, err = a.store.Append(records)
		records = records[written:]
		if !errors.Is(err, checkpoint.ErrNoRoom) {
			continue
		}
		a.tellRoom(ctx)
		if !said {
			a.log.Error().Err(err).Int("records", len(records)).Msg("the agent waits for room on its disk; tasks run on")
			said = true
		}
		select {
		case <-time.After(roomInterval):
			err = nil
		case <-ctx.Done():
			a.disk.stuck = true
			return nil
		}
	}
	return err
}

// lastWords writes what the loop had decided when it was told to end.
func (a *Agent) lastWords() {
	records, err := a.disk.begin(a.disk.take())
	if err == nil {
		_, err = a.store.Append(records)
	}
	if err != nil {
		a.log.Error().Err(err).Msg("the end was not written")
	}
}

// tellRoom tells the core how much room there is, when that has changed or is little.
func (a *Agent) tellRoom(ctx context.Context) {
	const lowPercent = 5
	room := core.DiskRoom{Full: a.store.Full(), Low: a.freePercent() < lowPercent}
	if room != a.disk.told || room.Full || room.Low {
		a.disk.told = room
		a.happened(ctx, room)
	}
}
