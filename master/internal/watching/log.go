package watching

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/internal/words"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/registry"
)

const (
	// logEntriesMax and logBytesMax bound what a log remembers for watchers that read slowly or resume. A watcher that
	// is behind that is ended (Limit); one that comes for it is told that it has missed something.
	logEntriesMax = 65_536
	logBytesMax   = 32 << 20
	// watchersMax bounds the watchers of a log. One more is refused (Limit).
	watchersMax = 256
	// responseItemsMax and responseBytesMax bound the changes of one response.
	responseItemsMax = 256
	responseBytesMax = 256 << 10
	// idleFor is how long a source goes on after the last watcher has left, so that one whose connection broke resumes.
	idleFor = 30 * time.Second
	// entriesMax bounds what a watcher takes from the log at once.
	entriesMax = 4 * responseItemsMax
	// gatherFor is how long a watcher that was told something rests, so that what happens meanwhile is sent at once: each
	// message costs the master far more than each change in it.
	gatherFor = 10 * time.Millisecond
	// cursorEvery is how often a watcher whose filter lets nothing through is told how far the log has come.
	cursorEvery = 10 * time.Second
)

// Log holds the latest entries, and with views also the state that they have led to. It outlives leaderships.
type Log struct {
	views bool // it has views; otherwise only events

	mu      sync.Mutex
	entries []Entry // guarded by mu, as all below; places base to base+len(entries)-1
	base    uint64
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
	entries := slices.Clone(l.entries)
	l.mu.Unlock()
	ends := &wire.Ends{}
	var event wire.Event
	for i := range entries {
		if entries[i].event != nil && event.Read(entries[i].event) == nil && event.Kind == string(change.Task) {
			ends.Note(event.Name, event.What, event.Cursor.Term)
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
			l.gap = l.base + uint64(len(l.entries))
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
		l.entries[l.gap-l.base-1].cursor = at
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

func (l *Log) append(e Entry) {
	l.entries = append(l.entries, e)
	l.bytes += e.bytes()
	for len(l.entries) > logEntriesMax || l.bytes > logBytesMax {
		l.bytes -= l.entries[0].bytes()
		if first := l.entries[0].cursor; !first.IsZero() {
			l.start = first
		}
		l.entries[0] = Entry{}
		l.entries = l.entries[1:]
		l.base++
	}
}

// Watcher is somebody who watches.
type Watcher struct {
	Request *apiv1.WatchRequest
	By      rights.Scope
	// Read lets look read the registry of this master.
	Read func(look func(*registry.State))
	// Decode says that the views must be fields of the messages, because they are not sent by gRPC.
	Decode bool
	// Oldest says that a watcher of events who names no cursor begins with the oldest one that the log has, not with the
	// next one.
	Oldest bool
	Send   func(*apiv1.WatchResponse) error
}

// reading is how far a watcher has come.
type reading struct {
	Watcher
	log   *Log
	place uint64
	after wire.Cursor // events up to here were told in an earlier watch
	told  wire.Cursor // the last cursor that was sent
	class string      // see classOf
	at    time.Time
}

// Serve tells a watcher what changes until ctx ends, sending fails, or the watcher reads too slowly.
func (l *Log) Serve(ctx context.Context, w Watcher) error {
	if err := l.join(); err != nil {
		return err
	}
	defer l.leave()
	r := &reading{Watcher: w, log: l, at: time.Now(), class: classOf(&w)}
	if err := r.begin(ctx); err != nil {
		return err
	}
	for {
		news, told, err := r.step(ctx)
		if err != nil {
			return err
		}
		if told > 0 {
			if told < entriesMax {
				pause.For(ctx, gatherFor)
			}
			continue
		}
		timer := time.NewTimer(cursorEvery)
		select {
		case <-news:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		timer.Stop()
	}
}

// begin finds the place from which the watcher is told, and sends the state if that is not what it asked for.
func (r *reading) begin(ctx context.Context) error {
	if r.Request.GetAfter() == nil && r.Oldest {
		err := r.log.begun(ctx)
		r.place, _ = r.log.placeAfter(wire.Cursor{})
		return err
	}
	if r.Request.GetAfter() == nil {
		return r.sendState(ctx, "")
	}
	r.after = wire.CursorOf(r.Request.GetAfter())
	if err := r.log.begun(ctx); err != nil {
		return err
	}
	place, known := r.log.placeAfter(r.after)
	if known {
		r.place = place
		return nil
	}
	missed := fmt.Sprintf("this master does not remember what followed change %d of term %s", r.after.Number, r.after.Term)
	r.after = wire.Cursor{}
	if r.log.views {
		return r.sendState(ctx, missed)
	}
	r.place = place
	return r.Send(&apiv1.WatchResponse{Missed: missed})
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
		l.base += uint64(len(l.entries))
		l.entries, l.bytes, l.cursor, l.start, l.whole, l.gap = nil, 0, wire.Cursor{}, wire.Cursor{}, false, 0
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
	for i := len(l.entries) - 1; i >= 0; i-- {
		e := &l.entries[i]
		if known := e.event != nil || e.missed != "" && !e.cursor.IsZero(); known && e.cursor.Compare(after) <= 0 {
			return l.base + uint64(i) + 1, true
		}
	}
	return l.base, true
}

// step sends what is new, and returns how many changes it took from the log for that: 0 means that there is no more.
func (r *reading) step(ctx context.Context) (news <-chan struct{}, told int, err error) {
	from := r.place
	parts, news, at, missed, err := r.take()
	if err != nil {
		return nil, 0, err
	}
	told = int(r.place - from)
	if err := r.send(r.responses(parts), at, missed == ""); err != nil {
		return nil, 0, err
	}
	switch {
	case missed == "":
		return news, told, nil
	case r.log.views:
		return news, entriesMax, r.sendState(ctx, missed)
	}
	return news, entriesMax, r.Send(&apiv1.WatchResponse{Missed: missed})
}

// take returns the next parts of the log, and the cursor behind them; missed says why what follows does not continue
// them.
func (r *reading) take() (parts []*written, news <-chan struct{}, at wire.Cursor, missed string, err error) {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	news = l.news
	if r.place < l.base {
		return nil, nil, at, "", api.E("watch", api.Limit, "", fmt.Errorf("it read too slowly: %s are waiting and no more are kept; resume with the last cursor", words.Count(len(l.entries), "change")))
	}
	end := l.base + uint64(len(l.entries))
	for most := min(end, r.place+entriesMax); r.place < most; {
		to := min(most, r.place-r.place%responseItemsMax+responseItemsMax)
		one, known := l.part(r, to)
		parts = append(parts, one)
		if r.place = known; known < to {
			e := &l.entries[known-l.base]
			r.place++
			return parts, news, e.cursor, e.missed, nil
		}
	}
	if r.place < end {
		return parts, news, wire.Cursor{}, "", nil // others may have the lock meanwhile
	}
	return parts, news, l.cursor, "", nil
}

// sendState sends the state at a moment, and goes on from there. Without views there is none, only its cursor.
func (r *reading) sendState(ctx context.Context, missed string) error {
	l := r.log
	for {
		l.mu.Lock()
		if l.whole {
			break
		}
		news := l.news
		l.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	var state []Entry
	at := l.cursor
	for _, of := range l.state { // order: irrelevant because the state has none
		state = slices.Grow(state, len(of))
		for _, one := range of { // order: as above
			state = append(state, Entry{cursor: at, shown: one})
		}
	}
	r.place = l.base + uint64(len(l.entries))
	l.mu.Unlock()
	r.told = wire.Cursor{}
	if missed != "" {
		if err := r.Send(&apiv1.WatchResponse{Missed: missed}); err != nil {
			return err
		}
	}
	return r.send(r.chosen(state), at, true)
}

// chosen returns the responses with those entries that the watcher has asked for and may see.
func (r *reading) chosen(entries []Entry) (responses []*apiv1.WatchResponse) {
	if r.By.Everything {
		return r.choose(entries, nil) // no names are needed
	}
	r.Read(func(state *registry.State) { responses = r.choose(entries, state) })
	return responses
}

// send sends responses. With the last of them the watcher knows everything up to the cursor, if that is not zero and
// whole is set.
func (r *reading) send(responses []*apiv1.WatchResponse, at wire.Cursor, whole bool) error {
	if whole && !at.IsZero() {
		idle := len(responses) == 0
		if idle && (at == r.told || !r.told.IsZero() && time.Since(r.at) < cursorEvery) {
			return nil
		}
		if idle {
			responses = append(responses, &apiv1.WatchResponse{})
		}
		last := responses[len(responses)-1]
		last.Complete, last.Cursor = true, at.Proto()
		r.told = at
	}
	for _, response := range responses {
		r.at = time.Now()
		if err := r.Send(response); err != nil {
			return err
		}
	}
	return nil
}

// choose does it by what the registry knows.
func (r *reading) choose(entries []Entry, state *registry.State) (responses []*apiv1.WatchResponse) {
	all := wantsAll(r.Request) && r.By.Everything
	var response *apiv1.WatchResponse
	items, size := 0, 0
	for i := range entries {
		e := &entries[i]
		if e.event != nil && e.cursor.Compare(r.after) <= 0 {
			e.event = nil
		}
		if e.event == nil && (e.shown == nil || r.Request.GetEventsOnly()) {
			continue
		}
		if !all {
			if of := e.of(); !wants(r.Request, &of) || !of.seen(r.By, state) {
				continue
			}
		}
		if response == nil || items == responseItemsMax || size > responseBytesMax {
			response, items, size = &apiv1.WatchResponse{}, 0, 0
			responses = append(responses, response)
		}
		r.put(e, response, state)
		items++
		size += e.bytes()
	}
	return responses
}

// put adds an entry to a response.
func (r *reading) put(e *Entry, response *apiv1.WatchResponse, state *registry.State) {
	switch packed := r.Request.GetPacked() && r.Request.GetEventsOnly(); {
	case packed && r.By.Everything:
		response.Packed = wire.PackEvent(response.Packed, e.event)
	case packed:
		encoded, _ := proto.Marshal(e.message(r.By, state).GetEvent()) // it was just read
		response.Packed = wire.PackEvent(response.Packed, encoded)
	case r.By.Everything && !r.Decode:
		message := response.ProtoReflect()
		message.SetUnknown(e.appendItem(message.GetUnknown()))
	default:
		response.Items = append(response.Items, e.message(r.By, state))
	}
}

// Follow calls keep with all events, encoded and packed as wire.Unpack reads them, in order, until ctx ends. With after it
// begins behind that event, else with the oldest that the log has. Where that is not possible, and whenever some events
// can't be told, missed says why, and the events follow those that are missed.
func (l *Log) Follow(ctx context.Context, after *apiv1.Cursor, read func(func(*registry.State)), keep func(packed []byte, missed string)) error {
	if after != nil {
		l.Seed(wire.CursorOf(after))
	}
	var watcher Watcher
	watcher = Watcher{
		Request: &apiv1.WatchRequest{EventsOnly: true, Packed: true, After: after}, By: rights.All(), Read: read, Decode: true, Oldest: true,
		Send: func(news *apiv1.WatchResponse) error {
			if len(news.GetPacked()) > 0 || news.GetMissed() != "" {
				keep(news.GetPacked(), news.GetMissed())
			}
			if news.GetComplete() {
				watcher.Request.After = news.GetCursor()
			}
			return nil
		},
	}
	for {
		err := l.Serve(ctx, watcher)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !api.Is(err, api.Limit) {
			return errors.Join(err)
		}
	}
}

// Whole reports whether the log knows the whole state at its cursor.
func (l *Log) Whole() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.whole
}

// Without returns entries that remove those things of the kinds from the state of which entries has no view.
func (l *Log) Without(entries []Entry, at wire.Cursor, kinds ...string) (gone []Entry) {
	there := make(map[string]bool, len(entries))
	for i := range entries {
		if view := entries[i].shown; view != nil && !view.gone {
			there[view.key()] = true
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, kind := range kinds {
		for name, known := range l.state[kind] { // order: irrelevant because each is a thing of its own
			if !there[known.key()] {
				gone = append(gone, Gone(kind, name, at))
			}
		}
	}
	return gone
}
