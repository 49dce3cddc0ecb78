package watching

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/internal/words"
	"github.com/tenderhq/tender/master/registry"
)

const (
	// responseItemsMax and responseBytesMax bound the changes of one response.
	responseItemsMax = 256
	responseBytesMax = 256 << 10
	// entriesMax bounds what a watcher takes from the log at once.
	entriesMax = 4 * responseItemsMax
	// gatherFor is how long a watcher that was told something rests, so that what happens meanwhile is sent at once: each
	// message costs the master far more than each change in it.
	gatherFor = 10 * time.Millisecond
	// cursorEvery is how often a watcher whose filter lets nothing through is told how far the log has come.
	cursorEvery = 10 * time.Second
)

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
		return nil, nil, at, "", api.E("watch", api.Limit, "", fmt.Errorf("it read too slowly: %s are waiting and no more are kept; resume with the last cursor", words.Count(int(l.end()-l.base), "change")))
	}
	end := l.end()
	for most := min(end, r.place+entriesMax); r.place < most; {
		to := min(most, r.place-r.place%blockEntries+blockEntries)
		one, known := l.part(r, to)
		parts = append(parts, one)
		if r.place = known; known < to {
			e := l.entry(known)
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
	r.place = l.end()
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
	some, size := make([]*Entry, 0, min(len(entries), responseItemsMax)), 0
	for i := range entries {
		e := &entries[i]
		if e.event != nil && e.cursor.Compare(r.after) <= 0 {
			e = &Entry{cursor: e.cursor, shown: e.shown}
		}
		if e.event == nil && (e.shown == nil || r.Request.GetEventsOnly()) {
			continue
		}
		if !all {
			if of := e.of(); !wants(r.Request, &of) || !of.seen(r.By, state) {
				continue
			}
		}
		if len(some) == responseItemsMax || size > responseBytesMax {
			responses = append(responses, r.response(some, state))
			some, size = some[:0], 0
		}
		some = append(some, e)
		size += e.bytes()
	}
	if len(some) > 0 {
		responses = append(responses, r.response(some, state))
	}
	return responses
}

// response returns a response with these entries. What can be is encoded as it is sent, so that nothing of it is read.
func (r *reading) response(entries []*Entry, state *registry.State) *apiv1.WatchResponse {
	response := &apiv1.WatchResponse{}
	switch packed := r.Request.GetPacked() && r.Request.GetEventsOnly(); {
	case packed:
		response.Packed = r.pack(entries, state)
	case r.By.Everything && !r.Decode:
		size := 0
		for _, e := range entries {
			size += e.itemSize()
		}
		encoded := make([]byte, 0, size) // it is kept for further watchers, and what is too much of it as well
		for _, e := range entries {
			encoded = e.appendItem(encoded)
		}
		response.ProtoReflect().SetUnknown(encoded)
	default:
		for _, e := range entries {
			response.Items = append(response.Items, e.message(r.By, state))
		}
	}
	return response
}

// pack returns the events of the entries as wire.Unpack reads them.
func (r *reading) pack(entries []*Entry, state *registry.State) []byte {
	size := 0
	for _, e := range entries {
		size += protowire.SizeBytes(len(e.event))
	}
	packed := make([]byte, 0, size)
	for _, e := range entries {
		encoded := e.event
		if !r.By.Everything {
			encoded, _ = proto.Marshal(e.message(r.By, state).GetEvent()) // it was just read
		}
		packed = wire.PackEvent(packed, encoded)
	}
	return packed
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
