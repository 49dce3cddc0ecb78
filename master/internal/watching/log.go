package watching

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/change"
)

const (
	// logEntriesMax and logBytesMax bound what a log remembers for watchers that read slowly or resume. A watcher that
	// is behind that is ended (Limit); one that comes for it is told that it has missed something.
	logEntriesMax = 65_536
	logBytesMax   = 32 << 20
	// watchersMax bounds the watchers of a log. One more is refused (Limit).
	watchersMax = 256
	// blockEntries is how many entries of a log are in memory together. They never move, and are forgotten together.
	blockEntries = responseItemsMax
	// idleFor is how long a source goes on after the last watcher has left, so that one whose connection broke resumes.
	idleFor = 30 * time.Second
)

// Log holds the latest entries, and with views also the state that they have led to. It outlives leaderships.
type Log struct {
	views bool // it has views; otherwise only events

	mu      sync.Mutex
	blocks  [][]Entry // guarded by mu, as all below; each begins at a multiple of blockEntries, and all but the last are full
	base    uint64    // the place of the first entry
	bytes   int
	state   map[string]map[string]*shown // the latest view of each thing, by kind and name
	whole   bool                         // the state is that at the cursor
	cursor  wire.Cursor
	start   wire.Cursor // everything after this is in entries, or marked there as missed
	gap     uint64      // the place behind a gap of which nobody has told yet where it ends; 0: there is none
	users   int
	left    time.Time     // when the last user left
	news    chan struct{} // closed and replaced when anything above has changed
	written map[part]*written
	parts   []part // the keys of written, the oldest first
}

// NewLog makes a log of events, or of events and views.
func NewLog(views bool) *Log {
	return &Log{views: views, state: make(map[string]map[string]*shown), news: make(chan struct{}), written: make(map[part]*written)}
}

// tell wakes everybody who waits.
func (l *Log) tell() {
	close(l.news)
	l.news = make(chan struct{})
}

// Cursor returns how far the log has come.
func (l *Log) Cursor() wire.Cursor {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cursor
}

// Ends returns the ends of tasks that are in the log.
func (l *Log) Ends() *wire.Ends {
	l.mu.Lock()
	blocks := slices.Clone(l.blocks)
	l.mu.Unlock()
	ends := &wire.Ends{}
	var event wire.Event
	for _, block := range blocks {
		for i := range block {
			if block[i].event != nil && event.Read(block[i].event) == nil && event.Kind == string(change.Task) {
				ends.Note(event.Name, event.What, event.Cursor.Term)
			}
		}
	}
	return ends
}

// Forget says that what follows does not continue what the log has: watchers are told why, and the state is empty until
// its parts are put again. The gap ends at a cursor; zero: where what is put next begins. A log that has told nobody
// anything need not say so.
func (l *Log) Forget(at wire.Cursor, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.state)
	l.whole = false
	if l.cursor != (wire.Cursor{}) {
		l.append(Entry{cursor: at, missed: why})
		if l.gap = 0; at.IsZero() {
			l.gap = l.end()
		}
	} else {
		l.start = at
	}
	if !at.IsZero() {
		l.cursor = at
	}
	l.tell()
}

// endGap notes where a gap ends: a watcher that comes from another master may know everything behind it.
func (l *Log) endGap(at wire.Cursor) {
	switch {
	case l.gap == 0:
		return
	case l.gap > l.base:
		l.entry(l.gap - 1).cursor = at
	default:
		l.start = at
	}
	l.gap = 0
}

// Put adds entries. whole says that the log knows everything up to the cursor now.
func (l *Log) Put(entries []Entry, at wire.Cursor, whole bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range entries {
		if e.event != nil {
			l.endGap(wire.Cursor{Term: e.cursor.Term, Number: e.cursor.Number - 1})
		}
		if l.views && !l.keep(&e) {
			continue
		}
		if e.event != nil && e.cursor.Compare(l.cursor) <= 0 { // told before, by an earlier stream of the same leader
			if e.event = nil; e.shown == nil {
				continue
			}
		}
		l.append(e)
	}
	if whole {
		l.endGap(at)
	}
	if l.cursor == (wire.Cursor{}) {
		l.start = at
	}
	if at.Compare(l.cursor) > 0 {
		l.cursor = at
	}
	if l.whole == whole && len(entries) == 0 {
		return
	}
	l.whole = l.whole || whole
	l.tell()
}

// Take takes in a response of a watch at another master. anew, if not empty, says why the response does not continue what
// the log has.
func (l *Log) Take(news *apiv1.WatchResponse, anew string) error {
	if why := cmp.Or(news.GetMissed(), anew); why != "" {
		l.Forget(wire.Cursor{}, why)
	}
	at := l.Cursor()
	var entries []Entry
	for _, item := range news.GetItems() {
		entries = append(entries, Changed(item, at))
	}
	for encoded := range wire.Unpack(news.GetPacked()) {
		e, err := Told(encoded)
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	if news.GetComplete() {
		at = wire.CursorOf(news.GetCursor())
	}
	l.Put(entries, at, news.GetComplete())
	return nil
}

// keep takes the view of an entry into the state. It returns false if the entry says nothing new.
func (l *Log) keep(e *Entry) bool {
	if e.shown == nil {
		return e.event != nil
	}
	of := l.state[e.shown.kind]
	if of == nil {
		of = make(map[string]*shown)
		l.state[e.shown.kind] = of
	}
	before, had := of[e.shown.name]
	if had {
		e.shown.thing = e.shown.or(before.thing)
	}
	switch {
	case e.shown.gone && had:
		delete(of, e.shown.name)
		return true
	case !e.shown.gone && !(had && bytes.Equal(before.view, e.shown.view)):
		of[e.shown.name] = e.shown
		return true
	}
	e.shown = nil
	return e.event != nil
}

// end returns the place behind the last entry.
func (l *Log) end() uint64 {
	if len(l.blocks) == 0 {
		return l.base
	}
	last := len(l.blocks) - 1
	return l.base + uint64(last*blockEntries+len(l.blocks[last]))
}

// entry returns the entry at a place.
func (l *Log) entry(place uint64) *Entry {
	at := place - l.base
	return &l.blocks[at/blockEntries][at%blockEntries]
}

func (l *Log) append(e Entry) {
	last := len(l.blocks) - 1
	if last < 0 || len(l.blocks[last]) == blockEntries {
		l.blocks = append(l.blocks, make([]Entry, 0, blockEntries))
		last++
	}
	l.blocks[last] = append(l.blocks[last], e)
	l.bytes += e.bytes()
	for len(l.blocks) > logEntriesMax/blockEntries || l.bytes > logBytesMax && len(l.blocks) > 1 {
		for i := range l.blocks[0] {
			l.bytes -= l.blocks[0][i].bytes()
			if at := l.blocks[0][i].cursor; !at.IsZero() {
				l.start = at
			}
		}
		l.blocks[0] = nil
		l.blocks = l.blocks[1:]
		l.base += blockEntries
	}
}

// gone returns the view that says that a row is no more; nil if there is no view of it.
func (l *Log) gone(name change.Row) *shown {
	full := make([]byte, 0, 128)
	if full = append(full, name.Name...); name.Within != "" {
		full = append(append(full, '/'), name.Within...)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.state[string(name.Kind)][string(full)]
	if known == nil {
		return nil
	}
	return viewOf(&apiv1.Change{Removed: known.key()})
}

// names returns the things of some kinds, whose names have one part, that the log has views of.
func (l *Log) names(kinds []change.Kind) (names []change.Row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, kind := range kinds {
		for name := range l.state[string(kind)] { // order: irrelevant because each is a thing of its own
			names = append(names, change.Row{Kind: kind, Name: name})
		}
	}
	return names
}

// begun waits until the log's source has begun.
func (l *Log) begun(ctx context.Context) error {
	for {
		l.mu.Lock()
		begun, news := l.cursor != (wire.Cursor{}), l.news
		l.mu.Unlock()
		if begun {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Seed has the log of a master that was started again begin behind this event, as far as its source still knows what
// follows.
func (l *Log) Seed(after wire.Cursor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cursor == (wire.Cursor{}) && !l.views {
		l.cursor, l.start = after, after
	}
}

// Drop forgets everything, because nobody has used the log for a while.
func (l *Log) Drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.views && l.users == 0 {
		l.base += uint64(len(l.blocks)) * blockEntries
		l.blocks, l.bytes, l.cursor, l.start, l.whole, l.gap = nil, 0, wire.Cursor{}, wire.Cursor{}, false, 0
		clear(l.state)
		clear(l.written)
		l.parts = nil
	}
}

// placeAfter returns the place of the first entry that somebody who was told everything up to a cursor does not know.
func (l *Log) placeAfter(after wire.Cursor) (uint64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if after.Compare(l.start) < 0 || l.views && !l.whole {
		return l.base, false
	}
	for place := l.end(); place > l.base; place-- {
		e := l.entry(place - 1)
		if known := e.event != nil || e.missed != "" && !e.cursor.IsZero(); known && e.cursor.Compare(after) <= 0 {
			return place, true
		}
	}
	return l.base, true
}

// Whole reports whether the log knows the whole state at its cursor.
func (l *Log) Whole() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.whole
}
