package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/tenderhq/tender/internal/pause"
)

const (
	// patchEvery is the shortest time between two patches of a tab.
	patchEvery = 500 * time.Millisecond
	// slowEvery is that time for a block that is so large that a browser would have much to do with it.
	slowEvery = 3 * time.Second
	// lookEvery is how often a tab is brought up to date though nothing was said to have changed: what is really used
	// changes by itself.
	lookEvery = 5 * time.Second
)

// signal tells everybody who waits that something has changed. The zero value is usable.
type signal struct {
	mu     sync.Mutex
	number uint64
	next   chan struct{} // guarded by mu; closed at the next change
}

// now returns the number of changes so far, and a channel that is closed at the next one.
func (s *signal) now() (uint64, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return s.number, s.next
}

// tell tells everybody.
func (s *signal) tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number++
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}

// lasting returns a context for an answer that lasts: it ends with the request, with the person's login, and when the page
// is no longer served.
func (s *Server) lasting(w http.ResponseWriter, r *http.Request) (ctx context.Context, done func()) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // the request is read
	until := viewerOf(r.Context()).Until
	if until.IsZero() {
		until = s.config.Clock().Add(lastsMax)
	}
	ctx, cancel := context.WithDeadline(r.Context(), until)
	stop := context.AfterFunc(s.ending, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// events sends the blocks of a view that have changed, as server-sent events, until the tab closes.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	if !r.URL.Query().Has("at") { // somebody has typed the name of the view
		http.Redirect(w, r, "/history", http.StatusSeeOther)
		return
	}
	at, err := url.Parse(r.URL.Query().Get("at"))
	if err != nil || !strings.HasPrefix(at.Path, "/") || at.Host != "" {
		http.Error(w, "say at which address the view is: ?at=/tasks", http.StatusBadRequest)
		return
	}
	ctx, done := s.lasting(w, r)
	defer done()
	tab := tab{w: w, control: http.NewResponseController(w), sent: map[string][]byte{}, at: map[string]time.Time{}}
	w.Header().Set("Content-Type", "text/event-stream")
	person := looking{server: s, ctx: ctx}
	defer func() { person.leave() }()
	for {
		looking, changed := person.look()
		if !tab.patch(ctx, s.collect(looking, at)) {
			return
		}
		pause.For(ctx, patchEvery)
		timer := time.NewTimer(lookEvery)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			_ = tab.send("gone", nil) // whoever still reads asks anew, and is told why there is no more
			return
		}
	}
}

// looking is the person at a tab, and the mirror at which this person looks.
type looking struct {
	server *Server
	ctx    context.Context
	at     context.Context // with the mirror
	mirror *mirror         // nil: there is none yet
	rights int             // as the mirror had counted when it was asked what the person may see
	asked  time.Time       // when
	left   func()
}

// look returns the context in which the person looks, and a channel that is closed when there is something new. What the
// person may see is asked when the watch has told something of rights, when the mirror has ended, and from time to time;
// not for each patch.
func (l *looking) look() (context.Context, <-chan struct{}) {
	rights := 0
	if l.mirror != nil {
		_, changed := l.mirror.changes.now()
		now, lives := l.mirror.trusted()
		if lives && now == l.rights && time.Since(l.asked) < lookEvery {
			return l.at, changed
		}
		rights = now
	}
	with, m, left, err := l.server.mirrored(l.ctx)
	if err != nil {
		return l.ctx, nil
	}
	l.leave()
	_, changed := m.changes.now()
	if m != l.mirror {
		rights = -1 // it is asked once more: rights may have changed while the mirror was made
	}
	l.at, l.mirror, l.rights, l.left, l.asked = with, m, rights, left, time.Now()
	return with, changed
}

func (l *looking) leave() {
	if l.left != nil {
		l.left()
	}
}

// tab is a view that somebody keeps open.
type tab struct {
	w       http.ResponseWriter
	control *http.ResponseController
	sent    map[string][]byte    // by the key of a block: what the tab has
	at      map[string]time.Time // since when
}

// patch sends the blocks that have changed. It returns false if the tab has gone, or has nothing more to expect.
func (t *tab) patch(ctx context.Context, shown page) bool {
	if shown.code == http.StatusForbidden || shown.code == http.StatusNotFound {
		_ = t.send("gone", nil)
		return false
	}
	changed := map[string]string{}
	if shown.code != 0 { // the cluster can't be asked just now: what was shown stays
		shown.blocks = nil
	}
	frame := []block{{key: "head", body: headView(shown.head)}}
	if shown.track.until > 0 {
		frame = append(frame, block{key: "track", slow: true, body: trackView(shown.track)})
	}
	for _, block := range append(frame, shown.blocks...) {
		if block.slow && time.Since(t.at[block.key]) < slowEvery {
			continue
		}
		var text bytes.Buffer
		if err := blockView(block).Render(ctx, &text); err != nil {
			return false
		}
		if !bytes.Equal(t.sent[block.key], text.Bytes()) {
			t.sent[block.key], t.at[block.key] = text.Bytes(), time.Now()
			changed[block.key] = text.String()
		}
	}
	if len(changed) == 0 {
		return t.send("same", []byte("{}")) // a tab that is told nothing at all for a while asks anew
	}
	var body bytes.Buffer
	writer := json.NewEncoder(&body)
	writer.SetEscapeHTML(false) // the blocks are markup, and nothing but the script reads them
	return writer.Encode(changed) == nil && t.send("patch", bytes.TrimSpace(body.Bytes()))
}

// send sends an event.
func (t *tab) send(name string, body []byte) bool {
	_ = t.control.SetWriteDeadline(time.Now().Add(sendMax))
	_, err := fmt.Fprintf(t.w, "event: %s\ndata: %s\n\n", name, body)
	return err == nil && t.control.Flush() == nil
}

// lastsMax is how long an answer may last for somebody whose login has no end; then the tab asks anew.
const lastsMax = 24 * time.Hour

// sendMax is for how long a tab may be too slow to read before it is given up; it asks anew.
const sendMax = 30 * time.Second
