package history

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/internal/wallclock"
	"github.com/tenderhq/tender/internal/wire"
)

// Config is where a history is and how much it keeps. Zero fields mean the defaults.
type Config struct {
	// Folder is made if it is missing. The caller must hold the lock of the data folder that it is in.
	Folder string
	// Bytes is how much each of the two rings takes. Default 256 MiB.
	Bytes int64
	// Age is for how long events are kept, as far as there is room. Default 30 days.
	Age time.Duration
	// Logger is told of damage, and of what could not be kept. Default: nothing is logged.
	Logger *zerolog.Logger
}

// The defaults.
const (
	BytesDefault = 256 << 20
	AgeDefault   = 30 * 24 * time.Hour
)

const (
	// queueEventsMax is how many events wait for the disk. What comes beyond them is not kept, and a gap says so.
	queueEventsMax = 65_536
	// writeEvery is the most time until an event is written, and until a notable one is safe from a crash of the machine.
	writeEvery = 100 * time.Millisecond
	// syncEvery is the same for routine.
	syncEvery = time.Second
	// trimEvery is how often old events are looked for.
	trimEvery = time.Minute
	// clockProof is for how long the wall clock must have gone right before anything is too old by it: as long as the
	// history runs and nobody has set the clock. (Protocol rule R23.)
	clockProof = time.Hour
)

// History keeps events. Add, Missed, Last and Select may be called from any goroutine; Run is called once.
type History struct {
	// Counts says how it fares.
	Counts Counts

	config           Config
	notable, routine *ring

	mu    sync.Mutex
	queue []record        // guarded by mu
	last  wire.Cursor     // of the newest event that was told; guarded by mu
	told  map[string]bool // sentences about damage that are in the log; guarded by mu
	wake  chan struct{}   // has a value when the queue is no longer empty

	// What follows belongs to Run.
	room                [3][]record // for the next queue, and for what of it is notable and routine: used again and again
	syncedAt, trimmedAt time.Time
	clock               wallclock.Calendar
	believed            time.Time // from when on the wall clock has gone right for clockProof; zero: nothing was written yet
	failed              string    // why the last write has failed; "": it has not
}

// Open reads the folder. Damage is no error: it is logged, skipped, and said in the pages that it concerns.
func Open(config Config) (*History, error) { return open(config, realDisk()) }

func open(config Config, disk disk) (*History, error) {
	if config.Bytes == 0 {
		config.Bytes = BytesDefault
	}
	if config.Age == 0 {
		config.Age = AgeDefault
	}
	if config.Logger == nil {
		nop := zerolog.Nop()
		config.Logger = &nop
	}
	if err := os.MkdirAll(config.Folder, 0o700); err != nil {
		return nil, err
	}
	h := &History{
		config: config, told: map[string]bool{}, wake: make(chan struct{}, 1),
		notable: &ring{name: "notable", config: config, disk: disk}, routine: &ring{name: "routine", config: config, disk: disk},
	}
	var harm []string
	for _, r := range []*ring{h.notable, h.routine} {
		found, err := r.load()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.name, err)
		}
		harm = append(harm, found...)
		if last := r.lastCursor(); last.Compare(h.last) > 0 {
			h.last = last
		}
	}
	h.tellHarm(harm)
	now := time.Now()
	for _, sentence := range harm {
		h.queue = append(h.queue, gap(h.last, now, sentence))
	}
	return h, nil
}

// gap returns the record that says what is missing behind a cursor.
func gap(behind wire.Cursor, at time.Time, why string) record {
	e := wire.Event{Cursor: behind, At: at, Why: why}
	return record{kind: gapFrame, notable: true, event: e.Append(nil), card: cardOf(gapFrame, &e, nil)}
}

// tellHarm logs what is damaged, each once.
func (h *History) tellHarm(harm []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, sentence := range harm {
		if !h.told[sentence] {
			h.told[sentence] = true
			h.config.Logger.Warn().Str("folder", h.config.Folder).Str("why", sentence).Msg("the history is damaged")
		}
	}
}

// Last returns the cursor of the newest event that was told, now or before the last start; zero: none was.
func (h *History) Last() wire.Cursor {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// Add is told what has happened, in order: encoded events, packed as wire.Unpack reads them. It never waits, and keeps
// the bytes. What it was told before is ignored.
func (h *History) Add(packed []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var e wire.Event
	room := make([]key, 0, len(packed)/16) // for the keys of all that come at once; seldom too little
	for encoded := range wire.Unpack(packed) {
		if e.Read(encoded) != nil || e.Cursor.Compare(h.last) <= 0 {
			continue
		}
		h.last = e.Cursor
		one := record{kind: eventFrame, notable: e.Notable, event: encoded, card: cardOf(eventFrame, &e, room)}
		room = one.keys[len(one.keys):]
		h.enqueue(one)
	}
}

// Missed is told that events behind the newest one were not told, and why.
func (h *History) Missed(at time.Time, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.enqueue(gap(h.last, at, why))
}

// enqueue must be called with mu held.
func (h *History) enqueue(one record) {
	if len(h.queue) == 0 {
		select {
		case h.wake <- struct{}{}:
		default: // it has one already
		}
	}
	switch {
	case len(h.queue) >= queueEventsMax:
		h.lose(one, "more came than could be written")
	case len(one.event) > payloadBytesMax:
		h.lose(one, fmt.Sprintf("an event may take %d bytes", payloadBytesMax))
	default:
		h.queue = append(h.queue, one)
	}
}

// lose notes in the place of a record that it is not kept. It must be called with mu held.
func (h *History) lose(one record, why string) {
	h.Counts.Lost.Add(1)
	last := len(h.queue) - 1
	if last < 0 || h.queue[last].lost == nil {
		h.queue = append(h.queue, record{kind: gapFrame, lost: &loss{}})
		last++
	}
	h.queue[last].lost.add(one, why)
}

// loss counts events that were told and are not kept.
type loss struct {
	events   int
	from, to moment
	why      string
}

// moment is when an event was, and its place.
type moment struct {
	at     time.Time
	cursor wire.Cursor
}

func (m moment) String() string { return m.at.Format(time.RFC3339Nano) }

func (l *loss) add(one record, why string) {
	lost := one.lost
	if lost == nil {
		lost = &loss{events: 1, from: one.moment, to: one.moment}
	}
	if l.events == 0 {
		l.from = lost.from
	}
	l.events, l.to, l.why = l.events+lost.events, lost.to, why
}

// gap returns the record of the gap that says what was lost. It stands behind the cursor, if that is the newer one.
func (l *loss) gap(behind wire.Cursor) record {
	if l.to.cursor.Compare(behind) > 0 {
		behind = l.to.cursor
	}
	return gap(behind, l.to.at, fmt.Sprintf("%d events between %s and %s were not kept: %s", l.events, l.from, l.to, l.why))
}

// Run writes what it is told until the context ends, and then the rest.
func (h *History) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(h.rest())
		select {
		case <-ctx.Done():
			return h.end()
		case <-h.wake: // from now on the rest is short
		case <-timer.C:
			h.write(time.Now())
		}
	}
}

// rest returns how long Run may rest until the next write.
func (h *History) rest() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.queue) > 0 || h.routine.file != nil && !h.routine.synced {
		return writeEvery
	}
	return trimEvery
}

// end writes the rest, and seals what is open.
func (h *History) end() error {
	h.write(time.Now())
	return errors.Join(h.notable.seal(), h.routine.seal())
}

// write writes what waits. What there is no room for is lost, and the next write that succeeds says so.
func (h *History) write(now time.Time) {
	h.mu.Lock()
	waiting := h.queue
	h.queue = h.room[0]
	h.mu.Unlock()
	notable, routine := h.room[1], h.room[2]
	for _, one := range waiting {
		if one.lost != nil {
			lost := one.lost
			one = lost.gap(h.notable.lastCursor())
			one.lost = lost
		}
		if one.notable {
			notable = append(notable, one)
		} else {
			routine = append(routine, one)
		}
	}
	err := errors.Join(h.writeTo(h.notable, notable), h.writeTo(h.routine, routine), h.notable.sync())
	if now.Sub(h.syncedAt) >= syncEvery {
		h.syncedAt = now
		err = errors.Join(err, h.routine.sync())
	}
	h.lookAtClock(now)
	old := now.Sub(h.trimmedAt) >= trimEvery
	for _, r := range []*ring{h.notable, h.routine} {
		if old || r.bytes > h.config.Bytes {
			h.trimmedAt = now
			err = errors.Join(err, r.trim(now, !now.Before(h.believed)))
		}
	}
	for i, used := range [][]record{waiting, notable, routine} {
		h.room[i] = emptied(used)
	}
	h.Counts.Notable.Store(h.notable.bytes)
	h.Counts.Routine.Store(h.routine.bytes)
	h.tellFailure(err)
}

// roomMax is how many records the memory has room for that is kept for the next write.
const roomMax = 16_384

// emptied returns the memory of records without them, unless it is too large to be kept, or nothing came.
func emptied(records []record) []record {
	if len(records) == 0 || cap(records) > roomMax {
		return nil
	}
	clear(records)
	return records[:0]
}

// lookAtClock begins to prove the wall clock anew when somebody has set it, and at first.
func (h *History) lookAtClock(now time.Time) {
	if h.believed.IsZero() {
		h.clock = wallclock.Began(now)
	} else if h.clock.Look(now) == 0 {
		return
	}
	h.believed = now.Add(clockProof)
}

// tellFailure logs that the history can't be written, once for each reason.
func (h *History) tellFailure(err error) {
	failed := ""
	if err != nil {
		failed = err.Error()
	}
	if failed != "" && failed != h.failed {
		h.config.Logger.Warn().Err(err).Str("folder", h.config.Folder).Msg("the history can't be written; what happens meanwhile is missing in it")
	}
	h.failed = failed
}

// writeTo writes records to a ring. Those that it does not take are lost; what waits stands behind them.
func (h *History) writeTo(r *ring, records []record) error {
	written, err := r.append(records)
	if err == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.queue) == 0 || h.queue[0].lost == nil {
		h.queue = slices.Insert(h.queue, 0, record{kind: gapFrame, lost: &loss{}})
	}
	for _, one := range records[written:] {
		if one.lost == nil { // else it is counted already
			h.Counts.Lost.Add(1)
		}
		h.queue[0].lost.add(one, err.Error())
	}
	return err
}
