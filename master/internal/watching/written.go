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

// written is a part as encoded responses. They are complete except for their cursor, and never edited.
type written struct {
	once      sync.Once
	responses [][]byte
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

// part returns a part that is encoded, or that the caller encodes.
func (l *Log) part(p part) *written {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.written[p]
	if one == nil {
		one = new(written)
		if l.parts = append(l.parts, p); len(l.parts) > partsMax {
			delete(l.written, l.parts[0])
			l.parts = l.parts[1:]
		}
		l.written[p] = one
	}
	return one
}

// responses returns what the watcher is told of the entries that begin at a place.
func (r *reading) responses(entries []Entry, from uint64) (all []*apiv1.WatchResponse) {
	for len(entries) > 0 {
		some := entries[:min(uint64(len(entries)), responseItemsMax-from%responseItemsMax)]
		to := from + uint64(len(some))
		if r.class == "" || r.heardSome(some) {
			all = append(all, r.chosen(some)...)
		} else {
			one := r.log.part(part{r.class, from, to})
			one.once.Do(func() {
				for _, response := range r.chosen(some) {
					encoded, _ := proto.Marshal(response) // we have just made it
					one.responses = append(one.responses, encoded)
				}
			})
			for _, encoded := range one.responses {
				response := new(apiv1.WatchResponse)
				response.ProtoReflect().SetUnknown(encoded)
				all = append(all, response)
			}
		}
		entries, from = entries[len(some):], to
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
