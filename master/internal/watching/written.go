package watching

import (
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/tenderhq/tender/api/v1"
)

// Those who watch the same are told the same, so a part of a log is encoded once for all of them. Everybody reads from
// where something has changed to the end of the log; so that those who read at different moments meet again, parts end
// at the same places for all.

// partsMax bounds the encoded parts of a log that wait for further watchers, of about 50 kB each. Who reads later than
// that encodes for itself again.
const partsMax = 32

// part names a part of a log: what watchers of a class are told of the places in between.
type part struct {
	class    string
	from, to uint64
}

// written is a part of a log. The first who needs it as encoded responses makes them, and they take the entries' place.
// They are complete except for their cursor, and never edited, as the entries are not.
type written struct {
	once      sync.Once
	entries   []Entry
	responses [][]byte
	alone     bool // it is one watcher's, and is not encoded
}

// classOf returns what those watchers have in common who are told the same: what they have asked for, and their rights. It
// is "" for one whose messages are not sent by gRPC.
func classOf(w *Watcher) string {
	if w.Decode {
		return ""
	}
	request := proto.CloneOf(w.Request)
	request.After = nil
	asked, _ := proto.MarshalOptions{Deterministic: true}.Marshal(request) // it came as a message
	return fmt.Sprintf("%v %s", w.By, asked)
}

// part returns what a watcher is told next, up to a place, and where it ends: before that place if something is missed
// there. Who watches the same gets the same part, and no entry is copied for those who come after the first.
func (l *Log) part(r *reading, to uint64) (one *written, end uint64) {
	p := part{r.class, r.place, to}
	at := p.from - l.base
	some := l.blocks[at/blockEntries][at%blockEntries:][:to-p.from]
	shared := r.class != "" && !r.heardSome(some)
	if one := l.written[p]; one != nil && shared {
		return one, to
	}
	for i := range some {
		if some[i].missed != "" {
			return &written{entries: some[:i], alone: true}, p.from + uint64(i)
		}
	}
	one = &written{entries: some, alone: !shared}
	if shared {
		if l.parts = append(l.parts, p); len(l.parts) > partsMax {
			delete(l.written, l.parts[0])
			l.parts = l.parts[1:]
		}
		l.written[p] = one
	}
	return one, to
}

// responses returns what the watcher is told of parts of the log.
func (r *reading) responses(parts []*written) (all []*apiv1.WatchResponse) {
	for _, one := range parts {
		if one.alone {
			all = append(all, r.chosen(one.entries)...)
			continue
		}
		one.once.Do(func() {
			for _, response := range r.chosen(one.entries) {
				encoded := response.ProtoReflect().GetUnknown()
				if len(encoded) == 0 {
					encoded, _ = proto.Marshal(response) // we have just made it
				}
				one.responses = append(one.responses, encoded)
			}
			one.entries = nil
		})
		for _, encoded := range one.responses {
			response := new(apiv1.WatchResponse)
			response.ProtoReflect().SetUnknown(encoded)
			all = append(all, response)
		}
	}
	return all
}

// heardSome reports whether the watcher knows some of the events, from an earlier watch.
func (r *reading) heardSome(entries []Entry) bool {
	for i := range entries {
		if entries[i].event != nil {
			return entries[i].cursor.Compare(r.after) <= 0
		}
	}
	return false
}
