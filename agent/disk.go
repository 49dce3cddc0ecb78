package agent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/agent/checkpoint"
	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/upkeep"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/protocol"
)

// writer writes records in groups: while one group is being written, the next one is collected.
type writer struct {
	store   checkpoint.Store
	inbox   *inbox
	folder  *dataFolder
	log     zerolog.Logger
	metrics *metrics
	wake    chan struct{}

	// Only the writing goroutine uses the next two fields, once it runs.
	told  core.DiskRoom
	stuck bool // the agent ended while there was no disk space for what it had to write

	mutex   sync.Mutex
	pending group
	bytes   int           // the size of the records in pending
	room    chan struct{} // closed when pending is taken; nil: nobody waits for that
	busy    bool          // a compaction is queued or under way
}

// group is what is written at once: first a compaction, if there is one, then records.
type group struct {
	compact []core.Record // makes the same state as all records before it
	covered []core.Record // records not written yet when compact was made; it includes them
	records []core.Record
	number  uint64 // the number of the last record
}

func newWriter(store checkpoint.Store, inbox *inbox, folder *dataFolder, log zerolog.Logger, metrics *metrics) *writer {
	return &writer{store: store, inbox: inbox, folder: folder, log: log, metrics: metrics, wake: make(chan struct{}, 1)}
}

func (w *writer) add(number uint64, record core.Record) {
	w.mutex.Lock()
	w.pending.records = append(w.pending.records, record)
	w.pending.number = number
	w.bytes += recordBytes(record)
	w.mutex.Unlock()
}

// pendingBytesMax limits the records that wait for the disk. Beyond it nothing more is read from executors until the
// disk has taken what waits; gRPC's flow control then makes them wait (R34).
const pendingBytesMax = 16 << 20

func recordBytes(record core.Record) int {
	if r, is := record.(core.TaskStatus); is {
		return protocol.StatusBytes(r.Status)
	}
	return protocol.StatusBytes(api.Status{}) // executors can't make the other records large
}

// waitForRoom returns when at most pendingBytesMax wait for the disk, or when the context ends.
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

// compact replaces all records that wait by records that make the same state.
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

// begin writes the group's compaction, if there is one, and returns the records to append. If the disk has no room for
// the compaction, those are also the records that it would have replaced.
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

// diskInterval is how often the agent checks how much disk space there is. roomInterval is how long it waits when there
// is none for what it has to write.
const (
	diskInterval = 5 * time.Second
	roomInterval = time.Second
)

// run is the only goroutine that writes. An error of a write ends the agent: its executors and their tasks run on and
// wait for the next agent. A full disk is not such an error: nothing is told or done before it is written, so the agent
// waits.
func (w *writer) run(ctx context.Context) {
	ticker := time.NewTicker(diskInterval)
	defer ticker.Stop()
	for {
		select {
		case <-w.wake:
		case <-ticker.C:
			w.tellRoom(ctx)
			continue
		case <-ctx.Done():
			w.writeLast()
			return
		}
		g := w.take()
		if g.compact == nil && len(g.records) == 0 {
			continue
		}
		if err := w.writeGroup(ctx, g); err != nil {
			w.inbox.fail(err)
			return
		}
		if ctx.Err() != nil && w.stuck {
			return
		}
		w.metrics.written(len(g.records))
		if w.store.Full() != w.told.Full {
			w.tellRoom(ctx)
		}
		if !w.inbox.postEvent(ctx, core.Checkpointed{Number: g.number}) {
			return
		}
	}
}

// writeGroup writes a group. If there is no disk space it waits, however long that takes.
func (w *writer) writeGroup(ctx context.Context, g group) error {
	records, err := w.begin(g)
	said := false
	for err == nil && len(records) > 0 {
		var written int
		written, err = w.store.Append(records)
		records = records[written:]
		if !errors.Is(err, checkpoint.ErrNoRoom) {
			continue
		}
		w.tellRoom(ctx)
		if !said {
			w.log.Error().Err(err).Int("records", len(records)).Msg("the agent waits for space on its disk; tasks go on")
			said = true
		}
		if !pause.For(ctx, roomInterval) {
			w.stuck = true
			return nil
		}
		err = nil
	}
	return err
}

// writeLast writes what the loop had decided before it was told to end.
func (w *writer) writeLast() {
	records, err := w.begin(w.take())
	if err == nil {
		_, err = w.store.Append(records)
	}
	if err != nil {
		w.log.Error().Err(err).Msg("the end of a task's output was not written")
	}
}

// keepWithinBounds limits the outputs of tasks and executors and measures sandboxes, until the context ends.
func (a *Agent) keepWithinBounds(ctx context.Context) {
	if a.folder.path == "" {
		return // there is nothing on disk
	}
	upkeep.New(upkeep.Config{
		OutputMax: a.config.OutputBytesMax, Log: a.log,
		Open: func(folder string) (*os.Root, error) {
			place := a.folder.below.At(folder)
			if place.IsMissing() {
				return nil, fs.ErrNotExist
			}
			return place.Open()
		},
		Peek: func(folder string) (*os.File, error) { return a.folder.below.At(folder).OpenFolder() },
		Look: func(ctx context.Context) (sandboxes []core.Sandbox, more bool) {
			more = a.inbox.ask(ctx, func(c *core.Core) { sandboxes = c.Sandboxes() })
			for i, sandbox := range sandboxes {
				if sandbox.Volume != "" {
					sandboxes[i].Folder = a.folder.volumeFolder(sandbox.Volume)
				}
			}
			return sandboxes, more
		},
		Tell: func(ctx context.Context, measured core.Measured) bool { return a.inbox.postEvent(ctx, measured) },
	}).Run(ctx)
}

// tellRoom tells the core how much disk space there is, if that has changed or there is little.
func (w *writer) tellRoom(ctx context.Context) {
	before := w.told
	if room := w.look(); room != before || room.Full || room.Low {
		w.inbox.postEvent(ctx, room)
	}
}

// look returns how much disk space there is, for the core.
func (w *writer) look() core.DiskRoom {
	room, full := w.folder.diskRoom(), w.store.Full()
	w.told = core.DiskRoom{Full: full, Low: room.LittleBytes() || room.LittleInodes(), NoInodes: full && checkpoint.LacksInodes(room)}
	return w.told
}
