package audit

import (
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// recentMax is how many lines are kept in memory; the oldest is dropped.
	recentMax = 8192
	// recentBytesMax limits their size there.
	recentBytesMax = 4 << 20
	// entryBytes is what a line takes besides its texts.
	entryBytes = 256
	// numberMax is the largest number of a line that is accepted from a file, so that there are always larger ones.
	numberMax = 1 << 62
	// textBytes is what each of several texts takes besides its bytes.
	textBytes = 16
)

// Entry is a line that is kept in memory, with what it was about.
type Entry struct {
	Line
	Objects []Object
	bytes   int
}

// Recent holds the newest lines in memory. It may be used from any goroutine.
type Recent struct {
	mu      sync.Mutex
	entries []Entry   // the oldest first, each with a larger number than the one before; guarded by mu
	bytes   int       // of all of them; guarded by mu
	last    uint64    // the newest number; guarded by mu
	since   time.Time // see Since; guarded by mu
	cut     bool      // older lines were dropped to make room; guarded by mu
}

// Add keeps a line, and gives it its number.
func (r *Recent) Add(l *Line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	l.Number = r.last
	r.keep(*l)
}

// again keeps a line that was read back from the file. It keeps its number if that is larger than those before. Lines
// of calls that ended together may be in another order in the file.
func (r *Recent) again(l Line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.Number <= r.last || l.Number > numberMax {
		l.Number = r.last + 1
	}
	r.last = l.Number
	r.keep(l)
}

// keep adds a line, unless it is about a call that a follower sent on to the leader: that is in the leader's log.
func (r *Recent) keep(l Line) {
	if l.Result == notLeader {
		return
	}
	e := Entry{Line: l, Objects: objectsOf(l)}
	e.bytes = entryBytes + len(l.Who) + len(l.From) + len(l.Call) + len(l.On) + len(l.Result) + len(l.Why)
	for _, about := range l.About {
		e.bytes += textBytes + len(about)
	}
	for _, object := range e.Objects {
		e.bytes += 2*textBytes + len(object.Kind) + len(object.Name)
	}
	r.entries, r.bytes = append(r.entries, e), r.bytes+e.bytes
	for len(r.entries) > recentMax || r.bytes > recentBytesMax {
		r.bytes -= r.entries[0].bytes
		r.entries[0] = Entry{} // its texts are freed now, its place when the slice grows
		r.entries, r.cut = r.entries[1:], true
	}
}

// Since returns the time from which on no line is missing; zero: none was ever dropped.
func (r *Recent) Since() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cut && len(r.entries) > 0 {
		return r.entries[0].At
	}
	return r.since
}

// Query selects entries: all of them, as far as its fields do not restrict that.
type Query struct {
	Since  time.Time
	Until  time.Time // only what was asked for before it; zero: all
	On     Object    // of those whose request was too long to be kept or not read, nobody knows what they were about, so they are selected too
	By     string    // a caller, such as "person ann", or only its name
	Denied bool      // only what was denied
	Before uint64    // only entries with a smaller number; 0: all
	// Limit and Bytes limit what is selected and are each at least 1. An entry larger than Bytes is selected alone.
	Limit, Bytes int
}

func (q Query) selects(e *Entry) bool {
	return (q.Before == 0 || e.Number < q.Before) && !e.At.Before(q.Since) && (q.Until.IsZero() || e.At.Before(q.Until)) && (!q.Denied || e.Result == Denied) &&
		(q.By == "" || e.by(q.By)) && (q.On == Object{} || e.Cut || e.unread() || slices.ContainsFunc(e.Objects, q.On.is))
}

// by says whether somebody has made the call: one word for the kind of caller stands before the name.
func (e *Entry) by(name string) bool {
	who := strings.TrimSuffix(e.Who, byBrowser)
	_, alone, _ := strings.Cut(who, " ")
	return who == name || alone == name
}

// byBrowser is what package rights adds to the name of a caller that was identified by a cookie.
const byBrowser = " by a browser"

// Select returns entries, the newest first, and whether older ones are selected as well.
func (r *Recent) Select(q Query) (selected []Entry, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	bytes := 0
	for i := len(r.entries) - 1; i >= 0; i-- {
		e := &r.entries[i]
		if !q.selects(e) {
			continue
		}
		if bytes += e.bytes; len(selected) > 0 && (len(selected) == q.Limit || bytes > q.Bytes) {
			return selected, true
		}
		selected = append(selected, *e)
	}
	return selected, false
}
