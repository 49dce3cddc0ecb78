package history

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sort"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
)

// Query selects events: all of them, as far as its fields do not restrict that.
type Query struct {
	Since, Until time.Time // at Since or later, and before Until
	Of           string    // KIND/NAME; a task may lack its framework
	Kinds        []string
	By           string // "person ann", or only the name
	NotableOnly  bool
	// Sees says whether who asks may see an event.
	Sees func(*apiv1.Event) bool
	// Before restricts to what is before a cursor; zero: everything.
	Before wire.Cursor
	// Limit is how many are selected; at least 1.
	Limit int

	tasks map[key]bool // of one of these tasks; nil: of any
}

// Page is what a query has selected.
type Page struct {
	Events []*apiv1.Event // the newest first
	// Gaps says what is missing in the time that the page covers, the newest first.
	Gaps []string
	// Next is where older ones begin, for Before; zero: there are none.
	Next wire.Cursor
}

const (
	// examinedMax is how many records one page reads of a ring. Then the page ends, however short it is.
	examinedMax = 100_000
	// pageBytesMax is at how many bytes of events a page ends.
	pageBytesMax = 512 << 10
	// gapsMax bounds the sentences of a page.
	gapsMax = 100
	// vanishedMax is how often a query begins again because segments were joined meanwhile.
	vanishedMax = 8
)

// errVanished means that a segment is no longer what it was, because the ring has dropped or joined it.
var errVanished = errors.New("the segment was replaced")

// Selects reports whether an event is what the query looks for; Before and Limit do not count.
func (q *Query) Selects(e *apiv1.Event) bool {
	if !q.inTime(e) || len(q.Kinds) > 0 && !slices.Contains(q.Kinds, e.GetKind()) {
		return false
	}
	if kind, name, _ := strings.Cut(q.Of, "/"); q.Of != "" && !concerns(e, kind, name) {
		return false
	}
	if _, name, _ := strings.Cut(e.GetBy(), " "); q.By != "" && q.By != e.GetBy() && q.By != name {
		return false
	}
	return q.Sees == nil || q.Sees(e)
}

func (q *Query) inTime(e *apiv1.Event) bool {
	at := e.GetAt().AsTime()
	return !at.Before(q.Since) && (q.Until.IsZero() || at.Before(q.Until))
}

// skips reports whether no record of a segment can be selected.
func (q *Query) skips(s *summary) bool {
	return s.Records == 0 || s.Newest.Before(q.Since) || !q.Until.IsZero() && !s.Oldest.Before(q.Until) ||
		!q.Before.IsZero() && s.First.Compare(q.Before) >= 0
}

// candidates returns where records begin that may be selected, in order.
func (q *Query) candidates(x *index) []uint32 {
	var found []uint32
	restricted := false
	restrict := func(offsets []uint32) {
		if restricted {
			offsets = both(found, offsets)
		}
		found, restricted = offsets, true
	}
	if q.Of != "" {
		restrict(x.find(keyOf(q.Of)))
	}
	if len(q.Kinds) > 0 {
		var keys []key
		for _, kind := range q.Kinds {
			keys = append(keys, kindKey(kind))
		}
		restrict(x.find(keys...))
	}
	if q.By != "" {
		restrict(x.find(causeKeys(q.By)...))
	}
	if q.tasks != nil {
		restrict(x.findAny(func(k key) bool { return q.tasks[k] }))
	}
	if !restricted {
		return x.all()
	}
	return merge(found, x.find(gapKey))
}

// causeKeys returns the keys of what a caller may be.
func causeKeys(by string) []key {
	if kind, name := causeOf(by); name != "" {
		return []key{keyOf(kind, "/", name)}
	}
	var keys []key
	for _, kind := range []string{principalKind, frameworkKind, "agent", "master"} {
		keys = append(keys, keyOf(kind, "/", by))
	}
	return keys
}

// hit is a record that was found.
type hit struct {
	kind  byte
	event *apiv1.Event
}

func (h hit) cursor() wire.Cursor { return wire.CursorOf(h.event.GetCursor()) }

// hits is what a ring has found for a query.
type hits struct {
	found []hit // the newest first
	harm  []string
	// last is the cursor down to which all is found, if not whole.
	last             wire.Cursor
	whole            bool
	events, examined int
	bytes            int
	buffer           []byte // of an index, used again
}

// find returns the newest records that a query selects.
func (r *ring) find(q *Query) (*hits, error) {
	for range vanishedMax {
		h := &hits{}
		err := r.findIn(q, h)
		if !errors.Is(err, errVanished) {
			return h, err
		}
	}
	return nil, fmt.Errorf("the segments of %s were replaced %d times meanwhile", r.name, vanishedMax)
}

func (r *ring) findIn(q *Query, h *hits) error {
	segments := r.shown()
	for i := len(segments) - 1; i >= 0; i-- {
		if q.skips(&segments[i].summary) {
			continue
		}
		if done, err := segments[i].open(r.path(segments[i].name), func(file io.ReaderAt) (bool, error) {
			return segments[i].find(q, file, h)
		}); done || err != nil {
			return err
		}
	}
	h.whole = true
	return nil
}

// shown returns the segments as they are now. Their values do not change any more.
func (r *ring) shown() []segment {
	r.mu.RLock()
	defer r.mu.RUnlock()
	segments := make([]segment, len(r.segments))
	for i, s := range r.segments {
		segments[i] = *s
		if s.memory != nil {
			memory := *s.memory // what is appended to it later is behind its end
			segments[i].memory = &memory
		}
	}
	return segments
}

// open has the segment's file read, if it is still the one that it was.
func (s *segment) open(path string, read func(io.ReaderAt) (bool, error)) (done bool, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, errVanished
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || s.memory == nil && info.Size() != s.bytes {
		return false, errors.Join(errVanished, err)
	}
	return read(file)
}

// find adds what is found in the segment, the newest first. done says that the page is full.
func (s *segment) find(q *Query, file io.ReaderAt, h *hits) (done bool, err error) {
	index, damaged, err := s.openIndex(file, &h.buffer)
	if err != nil {
		return false, err
	}
	if damaged {
		h.harm = append(h.harm, "the index of "+s.name+" is damaged; its records were read instead")
	}
	if s.summary.Bad > 0 {
		h.harm = append(h.harm, fmt.Sprintf("%d bytes of %s are damaged and were skipped", s.summary.Bad, s.name))
	}
	offsets := q.candidates(index)
	if !q.Before.IsZero() && s.summary.Last.Compare(q.Before) >= 0 {
		offsets = offsets[:sort.Search(len(offsets), func(i int) bool {
			for ; i < len(offsets); i++ { // for one that is damaged the next one speaks
				if _, e, ok := readRecord(file, offsets[i]); ok {
					return wire.CursorOf(e.GetCursor()).Compare(q.Before) >= 0
				}
			}
			return true
		})]
	}
	unread := 0
	for i := len(offsets) - 1; i >= 0 && !done; i-- {
		kind, e, ok := readRecord(file, offsets[i])
		if !ok {
			unread++
			continue
		}
		done = h.add(q, hit{kind, e})
	}
	if unread > 0 {
		h.harm = append(h.harm, fmt.Sprintf("%d records of %s are damaged and were skipped", unread, s.name))
	}
	return done, nil
}

// add adds a record, if it is selected. done says that the page is full, and the record not of it any more.
func (h *hits) add(q *Query, one hit) (done bool) {
	// A page never ends between records of one cursor, because the next one begins behind it.
	at := one.cursor()
	if (h.events >= q.Limit || h.bytes >= pageBytesMax || h.examined >= examinedMax) && at != h.last {
		return true
	}
	h.last = at
	h.examined++
	switch {
	case one.kind == gapFrame && q.inTime(one.event):
		h.found = append(h.found, one)
	case one.kind == eventFrame && q.Selects(one.event):
		h.found = append(h.found, one)
		h.events++
		h.bytes += proto.Size(one.event)
	}
	return false
}

// Select returns a page of the events that a query selects, the newest first. It may be called from any goroutine.
func (h *History) Select(q Query) (Page, error) {
	rings := []*ring{h.notable}
	if !q.NotableOnly {
		rings = append(rings, h.routine)
	}
	var page Page
	var all []hit
	bytes := 0
	for _, r := range rings {
		found, err := r.find(&q)
		if err != nil {
			return page, err
		}
		h.tellHarm(found.harm)
		page.Gaps = append(page.Gaps, found.harm...)
		all = append(all, found.found...)
		if !found.whole && found.last.Compare(page.Next) > 0 {
			page.Next = found.last
		}
	}
	slices.SortStableFunc(all, func(a, b hit) int { return b.cursor().Compare(a.cursor()) })
	for i, one := range all {
		if one.cursor().Compare(page.Next) < 0 { // one of the rings may have others before it
			break
		}
		if (len(page.Events) >= q.Limit || bytes >= pageBytesMax) && one.cursor() != all[i-1].cursor() {
			page.Next = all[i-1].cursor()
			break
		}
		if one.kind == eventFrame {
			page.Events = append(page.Events, one.event)
			bytes += proto.Size(one.event)
		} else if len(page.Gaps) < gapsMax {
			page.Gaps = append(page.Gaps, one.event.GetWhy())
		}
	}
	return page, nil
}

// Ended returns those of the tasks that have ended as it is given, by FRAMEWORK/TASK and the word of that event, and were
// not launched again, as far as the history has written it since a time. It may be called from any goroutine.
func (h *History) Ended(tasks map[string]string, since time.Time) map[string]bool {
	q := Query{Since: since, Limit: endedPage, tasks: make(map[key]bool, len(tasks))}
	for task := range tasks { // order: irrelevant because the result is a map
		q.tasks[keyOf(taskKind, "/", task)] = true
	}
	ended := make(map[string]bool)
	for {
		page, err := h.Select(q)
		if err != nil {
			return ended // what can't be read is not known
		}
		for _, e := range page.Events {
			what, asked := tasks[e.GetName()]
			if _, decided := ended[e.GetName()]; !asked || decided || e.GetKind() != taskKind {
				continue
			}
			switch e.GetWhat() { // of the newest of the two
			case what:
				ended[e.GetName()] = true
			case launchedWord:
				ended[e.GetName()] = false
			}
		}
		if page.Next.IsZero() || len(ended) == len(tasks) {
			return ended
		}
		q.Before = page.Next
	}
}

const (
	endedPage    = 1000       // how many events Ended reads at once
	launchedWord = "launched" // of a task, as its event has it
)

// merge returns what is in one of two ordered lists, each once.
func merge(a, b []uint32) []uint32 {
	if len(a) == 0 || len(b) == 0 {
		return append(a, b...)
	}
	all := append(slices.Clone(a), b...)
	slices.Sort(all)
	return slices.Compact(all)
}

// both returns what is in both of two ordered lists.
func both(a, b []uint32) []uint32 {
	return slices.DeleteFunc(slices.Clone(a), func(offset uint32) bool {
		_, has := slices.BinarySearch(b, offset)
		return !has
	})
}
