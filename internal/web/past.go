package web

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/wire"
)

const (
	// undoMax is how many changes a mirror can take back. It knows no moment before the oldest of them.
	undoMax = 30_000
	// sampleEvery is how often a mirror notes who holds how much, and samplesMax how many of these it keeps: an hour.
	sampleEvery = 5 * time.Second
	samplesMax  = 720
	// sampledMax is how many holders a sample names; the others are one.
	sampledMax = 200
	// marksMax is how many events a mirror remembers to mark the moments at which something happened.
	marksMax = 500
	// pastsMax is how many moments a mirror keeps ready.
	pastsMax = 4
)

// past is what a mirror knows of how it was. It is part of a mirror, and guarded by its mutex.
type past struct {
	hours   hours
	since   time.Time // it knows every moment from here on; zero: none yet
	undo    []undo    // the latest changes, the oldest first
	gaps    []span    // in which it was told nothing
	samples []sample
	marks   []*apiv1.Event
	ready   moments
	pieced  moments // before since
}

// undo is how a thing was before a change.
type undo struct {
	at         time.Time
	kind, name string
	was        *apiv1.Change // nil: it was not there
}

type span struct{ from, to time.Time }

// sample is who held how much at a moment.
type sample struct {
	at     time.Time
	total  amounts
	held   []holding // sorted by holder; shared with the next sample if that is equal
	joined bool      // it was so since the sample before, or nearly
}

// note takes down how a thing was before a change.
func (p *past) note(u undo) {
	if p.since.IsZero() {
		return
	}
	if len(p.undo) >= undoMax { // a tenth at a time, so that it is moved seldom
		p.since = p.undo[undoMax/10].at
		p.undo = slices.Delete(p.undo, 0, undoMax/10+1)
	}
	p.undo = append(p.undo, u)
	p.ready = nil
}

// mark remembers an event that somebody may look for.
func (p *past) mark(event *apiv1.Event) {
	if !event.GetNotable() {
		return
	}
	if len(p.marks) >= marksMax {
		p.marks = slices.Delete(p.marks, 0, marksMax/10)
	}
	p.marks = append(p.marks, event)
}

// sample takes down who holds how much.
func (m *mirror) sample(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.copy.Whole() || m.next != nil {
		return
	}
	all := m.tally.sums()
	next := sample{at: now, total: all.total}
	for _, h := range all.all { // sorted, so that the jobs of a framework in a role stand together
		h.job = ""
		if last := len(next.held) - 1; last >= 0 && next.held[last].holder == h.holder {
			next.held[last].amounts.add(h.amounts, 1)
			next.held[last].tasks += h.tasks
		} else {
			next.held = append(next.held, h)
		}
	}
	if len(next.held) > sampledMax {
		slices.SortStableFunc(next.held, func(a, b holding) int { return int(b.amounts[0] - a.amounts[0]) })
		rest := holding{holder: holder{role: "others", framework: "others"}}
		for _, one := range next.held[sampledMax:] {
			rest.amounts.add(one.amounts, 1)
			rest.tasks += one.tasks
		}
		next.held = append(next.held[:sampledMax:sampledMax], rest)
	}
	if last := len(m.past.samples) - 1; last >= 0 && slices.Equal(m.past.samples[last].held, next.held) {
		next.held = m.past.samples[last].held
	}
	if last := len(m.past.samples) - 1; last >= 0 {
		next.joined = now.Sub(m.past.samples[last].at) < 4*sampleEvery
	}
	if len(m.past.samples) >= samplesMax {
		m.past.samples = slices.Delete(m.past.samples, 0, 1)
	}
	m.past.samples = append(m.past.samples, next)
}

// replaced takes down what is different in a state that was told anew.
func (m *mirror) replaced(old, next *client.Copy, now time.Time) {
	if last := len(m.past.undo) - 1; last >= 0 {
		m.past.gaps = append(m.past.gaps, span{m.past.undo[last].at, now})
	}
	for was := range old.All() {
		kind, name := wire.ChangeName(was)
		if is := next.Get(kind, name); is == nil || !sameView(was, is) {
			m.past.note(undo{now, kind, name, was})
		}
	}
	for is := range next.All() {
		if kind, name := wire.ChangeName(is); old.Get(kind, name) == nil {
			m.past.note(undo{now, kind, name, nil})
		}
	}
}

// sameView compares what two changes say that a thing is.
func sameView(a, b *apiv1.Change) bool {
	return proto.Equal(&apiv1.Change{View: a.View}, &apiv1.Change{View: b.View})
}

// moments are mirrors as they were, by the second.
type moments map[int64]*copied

// keep keeps one more. When there are too many, the others are forgotten.
func (k *moments) keep(when time.Time, one *copied) {
	if len(*k) >= pastsMax || *k == nil {
		*k = moments{}
	}
	(*k)[when.Unix()] = one
}

// copiedAt returns a mirror of what there was at a moment.
func copiedAt(things []*apiv1.Change, when time.Time) *copied {
	then := mirror{copy: new(client.Copy), used: make(map[string]*apiv1.Usage)}
	then.take(&apiv1.WatchResponse{Complete: true, Items: things}, when)
	one := then.look()
	one.then = when
	return one
}

// at returns the mirror as it was at a moment, and that moment, which is not before the first that it knows.
func (m *mirror) at(when time.Time) (*copied, time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if when.Before(m.past.since) {
		when = m.past.since
	}
	if one := m.past.ready[when.Unix()]; one != nil {
		return one, when
	}
	was := map[[2]string]*apiv1.Change{}
	for _, u := range slices.Backward(m.past.undo) {
		if !u.at.After(when) {
			break
		}
		was[[2]string{u.kind, u.name}] = u.was
	}
	var things []*apiv1.Change
	for change := range m.copy.All() {
		kind, name := wire.ChangeName(change)
		if _, other := was[[2]string{kind, name}]; !other {
			things = append(things, change)
		}
	}
	for _, change := range was { // order: irrelevant because a copy sorts them
		if change != nil {
			things = append(things, change)
		}
	}
	one := copiedAt(things, when)
	one.err = m.err
	m.past.ready.keep(when, one)
	return one, when
}

// pastKey is the key under which the context of a request has the *copied of the moment that is looked at.
type pastKey struct{}

// isPast reports whether what is drawn is of the past, where there is nothing that one may do.
func isPast(ctx context.Context) bool {
	_, is := ctx.Value(pastKey{}).(*copied)
	return is
}

// momentOf returns the moment that an address names, by at=SECONDS; false: it names none.
func momentOf(query url.Values) (time.Time, bool) {
	seconds, err := strconv.ParseInt(query.Get("at"), 10, 64)
	return time.Unix(seconds, 0), err == nil && seconds > 0
}

// then returns the context of a request that asks for a moment of the past.
func (s *Server) then(r *http.Request, m *mirror) context.Context {
	ctx := r.Context()
	when, asked := momentOf(r.URL.Query())
	if !asked {
		return ctx
	}
	one, err := s.earlier(ctx, m, when)
	if one == nil {
		one, _ = m.at(when)
	}
	if err != nil {
		clamped := *one
		clamped.pieced = []string{"What was before can't be shown: " + sentenceOf(err) + "."}
		one = &clamped
	}
	return context.WithValue(ctx, pastKey{}, one)
}

// momentText writes a moment for people.
func momentText(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 MST") }

// track is the line below every view by which one goes into the past.
type track struct {
	path             string
	query            url.Values
	back             string // how far the line goes back
	since, until, at int64  // seconds; until is the first that is not over, and stands for now
	past             bool   // at is not now
	full             string
	marks            []trackMark
	note             string
}

// now is the address of the same view as it is now.
func (t track) now() string {
	query := maps.Clone(t.query)
	query.Del("at")
	at := "/" + strings.TrimLeft(t.path, "/") // two slashes, written as %2F, would name another host
	return (&url.URL{Path: at, RawQuery: query.Encode()}).RequestURI()
}

// with returns an address at the same moment.
func (t track) with(path string) string {
	if t.past {
		return path + "?at=" + strconv.FormatInt(t.at, 10)
	}
	return path
}

// trackMark is a moment at which something has happened.
type trackMark struct {
	x     float64
	title string
}

// trackWidth and trackHeight are the size of the track in its own units.
const (
	trackWidth  = 1000
	trackHeight = 20
)

// backs are how far the line may go back: no further than asked for, and as far as the moment that is shown.
var backs = []string{"hour", "day", "week", "month"}

// spanOf returns how long such a time is.
func spanOf(back string) time.Duration {
	return map[string]time.Duration{"hour": time.Hour, "day": 24 * time.Hour, "week": 7 * 24 * time.Hour, "month": 31 * 24 * time.Hour}[back]
}

// reachOf returns how far back the line goes for an address, and from when on: as the address says, or so far that the
// moment that is shown is on it.
func reachOf(query url.Values, when, until time.Time) (back string, begins time.Time) {
	for _, back = range backs {
		if begins = until.Add(-spanOf(back)); back == query.Get("back") || !query.Has("back") && !begins.After(when) {
			break
		}
	}
	return back, begins
}

// trackOf draws what a mirror knows of its past.
func (m *mirror) trackOf(of *url.URL, one *copied, now time.Time, before []sample) track {
	m.mu.Lock()
	defer m.mu.Unlock()
	soon := now.Unix() + 1
	var begins time.Time
	t := track{path: of.Path, query: of.Query(), until: soon, at: soon, note: strings.Join(one.pieced, " ")}
	if !one.then.IsZero() {
		t.at, t.past = one.then.Unix(), true
	}
	t.back, begins = reachOf(t.query, time.Unix(t.at, 0), time.Unix(soon, 0))
	t.since = begins.Unix()
	span := max(1, float64(t.until-t.since))
	x := func(at time.Time) float64 { return trackWidth * (at.Sub(begins).Seconds()) / span }
	var line pen
	for _, s := range m.past.after(before) {
		if s.at.Before(begins) || s.total[0] <= 0 {
			continue
		}
		var held amounts
		for _, h := range s.held {
			held.add(h.amounts, 1)
		}
		path := line.of("used")
		command := byte('L')
		if len(*path) == 0 {
			command = 'M'
		}
		*path = pair(append(*path, command), x(s.at), trackHeight-2-(trackHeight-4)*min(1, held.of("cpus")/s.total.of("cpus")))
	}
	t.full = string(*line.of("used"))
	for _, event := range m.past.marks {
		if at := event.GetAt().AsTime(); !at.Before(begins) && !at.After(now) {
			t.marks = append(t.marks, trackMark{x(at), fmt.Sprintf("%s: %s %s %s", momentText(at), event.GetKind(), event.GetName(), event.GetWhat())})
		}
	}
	for _, gap := range m.past.gaps {
		if t.past && gap.from.Before(one.then) && one.then.Before(gap.to) {
			t.note = fmt.Sprintf("nothing was told between %s and %s: this is how it was before", momentText(gap.from), momentText(gap.to))
		}
	}
	return t
}

// ofThen has a view of the past do nothing, and name no command that would show the present.
func (p *page) ofThen(when time.Time) {
	if !p.track.past {
		return
	}
	p.still = true
	for i := range p.blocks {
		p.blocks[i].actions, p.blocks[i].command = nil, ""
	}
	if !strings.Contains(p.command, thenText(when)) {
		p.command = "tender events --until " + thenText(when)
	}
}
