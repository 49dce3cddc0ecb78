package history

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/testing/clock"
	"github.com/tenderhq/tender/internal/wire"
)

// began is when the cluster of the tests began.
var began = time.Date(2026, 11, 26, 14, 0, 0, 0, time.UTC)

// cursorAt is the place of event number n of a term.
func cursorAt(term, n uint64) wire.Cursor {
	return wire.Cursor{Term: api.Term{Number: term}, Number: n}
}

// event is number n of a term, a second behind the one before.
func event(term, n uint64, kind, name, what string, about ...string) *apiv1.Event {
	return &apiv1.Event{
		Cursor: cursorAt(term, n).Proto(), At: timestamppb.New(began.Add(time.Duration(n) * time.Second)),
		Kind: kind, Name: name, What: what, About: about, By: "leader m1", Notable: kind != "offer" && what != "running",
	}
}

// lives are the events of n tasks of a framework, from a number on: an offer, its launch, that it runs and fails.
func lives(term, from uint64, framework string, n int) (events []*apiv1.Event) {
	for i := range n {
		task, agent := fmt.Sprintf("%s/t%d", framework, i), fmt.Sprintf("agent/a%d", i%7)
		next := func() uint64 { return from + uint64(len(events)) }
		events = append(events, event(term, next(), "offer", fmt.Sprintf("offer-%d", next()), "accepted", agent, "framework/"+framework))
		events = append(events, event(term, next(), "task", task, "running", agent, "framework/"+framework, "role/web"))
		failed := event(term, next(), "task", task, "failed", agent, "framework/"+framework, "role/web")
		failed.Why = "exit code 7"
		events = append(events, failed)
	}
	return events
}

// packed returns events as a leader tells them.
func packed(events ...*apiv1.Event) (packed []byte) {
	for _, e := range events {
		encoded, err := proto.Marshal(e)
		if err != nil {
			panic(err)
		}
		packed = wire.PackEvent(packed, encoded)
	}
	return packed
}

func start(t testing.TB, config Config, disk disk) *History {
	t.Helper()
	h, err := open(config, disk)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// unsynced is a real disk that is fast, for tests without a crash of the machine.
func unsynced() disk {
	disk := realDisk()
	disk.sync = func(*os.File) error { return nil }
	return disk
}

// kill ends a history as kill -9 does: nothing more is written.
func kill(h *History) {
	for _, r := range []*ring{h.notable, h.routine} {
		if r.file != nil {
			_ = r.file.Close()
		}
	}
}

// pages returns all that a query selects, page by page.
func pages(t testing.TB, h *History, q Query) (events []*apiv1.Event, gaps []string) {
	t.Helper()
	if q.Limit == 0 {
		q.Limit = 7
	}
	for {
		page, err := h.Select(q)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Events) > q.Limit+1 {
			t.Errorf("a page of %d has %d events", q.Limit, len(page.Events))
		}
		events, gaps = append(events, page.Events...), append(gaps, page.Gaps...)
		if page.Next.IsZero() {
			return events, gaps
		}
		if !q.Before.IsZero() && page.Next.Compare(q.Before) >= 0 {
			t.Fatalf("behind %v a page leads to %v", q.Before, page.Next)
		}
		q.Before = page.Next
	}
}

// isNewestFirst compares events with those that were told, in the order in which they were.
func isNewestFirst(t testing.TB, got, told []*apiv1.Event) {
	t.Helper()
	if len(got) != len(told) {
		t.Fatalf("%d events, and %d were told", len(got), len(told))
	}
	for i, e := range got {
		if wanted := told[len(told)-1-i]; !proto.Equal(e, wanted) {
			t.Fatalf("event %d is %v, and %v was told", i, e, wanted)
		}
	}
}

func selected(events []*apiv1.Event, which func(*apiv1.Event) bool) []*apiv1.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e *apiv1.Event) bool { return !which(e) })
}

// TestSelect: what was told is found by each condition, the newest first, before and after a restart, in pages of each
// size.
func TestSelect(t *testing.T) {
	config := Config{Folder: t.TempDir()}
	h := start(t, config, realDisk())
	told := slices.Concat(lives(3, 1, "f1", 40), lives(3, 121, "f2", 40))
	grant := event(3, 241, "principal", "bob", "granted")
	grant.By = "person ann"
	told = append(told, grant, event(3, 242, "task", "f2/own", "running", "framework/f2", "owner/carl"))
	for i, e := range told {
		h.Add(packed(e, e)) // twice, as after a stream that broke
		if i%50 == 0 {
			h.write(began)
		}
	}
	h.write(began)
	for _, life := range []string{"the first life", "after kill -9", "after an end"} {
		for _, one := range []struct {
			name  string
			query Query
			which func(*apiv1.Event) bool
		}{
			{"all", Query{}, func(*apiv1.Event) bool { return true }},
			{"a task", Query{Of: "task/f1/t3"}, func(e *apiv1.Event) bool { return e.GetName() == "f1/t3" }},
			{"a task without its framework", Query{Of: "task/t3"}, func(e *apiv1.Event) bool { return strings.HasSuffix(e.GetName(), "/t3") }},
			{"an agent", Query{Of: "agent/a2"}, func(e *apiv1.Event) bool { return slices.Contains(e.GetAbout(), "agent/a2") }},
			{"a framework", Query{Of: "framework/f2"}, func(e *apiv1.Event) bool { return slices.Contains(e.GetAbout(), "framework/f2") }},
			{"a task's owner", Query{Of: "principal/carl"}, func(e *apiv1.Event) bool { return slices.Contains(e.GetAbout(), "owner/carl") }},
			{"who caused it", Query{Of: "principal/ann"}, func(e *apiv1.Event) bool { return e == grant }},
			{"nothing", Query{Of: "agent/none"}, func(*apiv1.Event) bool { return false }},
			{"kinds", Query{Kinds: []string{"offer", "principal"}}, func(e *apiv1.Event) bool { return e.GetKind() != "task" }},
			{"a kind of an agent", Query{Kinds: []string{"task"}, Of: "agent/a2"},
				func(e *apiv1.Event) bool { return e.GetKind() == "task" && slices.Contains(e.GetAbout(), "agent/a2") }},
			{"by", Query{By: "person ann"}, func(e *apiv1.Event) bool { return e == grant }},
			{"by a name", Query{By: "ann"}, func(e *apiv1.Event) bool { return e == grant }},
			{"a time", Query{Since: began.Add(100 * time.Second), Until: began.Add(200 * time.Second)},
				func(e *apiv1.Event) bool { n := e.GetCursor().GetNumber(); return n >= 100 && n < 200 }},
			{"notable", Query{NotableOnly: true}, (*apiv1.Event).GetNotable},
			{"what one may see", Query{Sees: func(e *apiv1.Event) bool { return e.GetKind() == "offer" }},
				func(e *apiv1.Event) bool { return e.GetKind() == "offer" }},
		} {
			for _, limit := range []int{1, 7, 1000} {
				t.Run(fmt.Sprintf("%s, %s, %d", life, one.name, limit), func(t *testing.T) {
					one.query.Limit = limit
					got, gaps := pages(t, h, one.query)
					isNewestFirst(t, got, selected(told, one.which))
					if len(gaps) > 0 {
						t.Errorf("it says %q", gaps)
					}
				})
			}
		}
		switch life {
		case "the first life":
			kill(h)
		case "after kill -9":
			if err := h.end(); err != nil {
				t.Fatal(err)
			}
		}
		if h = start(t, config, realDisk()); h.Last() != cursorAt(3, 242) {
			t.Errorf("it had come to %v", h.Last())
		}
	}
}

// TestGapsAreSaid: what was missed and dropped is said in its place.
func TestGapsAreSaid(t *testing.T) {
	h := start(t, Config{Folder: t.TempDir()}, realDisk())
	h.Add(packed(lives(3, 1, "f1", 2)...))
	h.Missed(began, "m2 leads")
	h.Add(packed(lives(4, 1, "f1", 1)...))
	h.Missed(began, "the leader has forgotten 12 events")
	h.Add(packed(lives(4, 40, "f1", 1)...))
	h.write(began)
	large := event(4, 50, "agent", "a1", "refused")
	large.Why = strings.Repeat("x", payloadBytesMax)
	h.Add(packed(large, event(4, 51, "agent", "a1", "gone")))
	h.write(began)
	wanted := []string{"an event may take 65536 bytes", "the leader has forgotten 12 events", "m2 leads"}
	for _, limit := range []int{1, 3, 1000} {
		for _, of := range []string{"", "agent/a0", "task/f9/none"} {
			_, gaps := pages(t, h, Query{Limit: limit, Of: of})
			if !slices.EqualFunc(gaps, wanted, strings.Contains) {
				t.Errorf("in pages of %d, of %q, it says %q", limit, of, gaps)
			}
		}
	}
	if _, gaps := pages(t, h, Query{Since: began.Add(time.Hour)}); len(gaps) > 0 {
		t.Errorf("of a time in which all was kept it says %q", gaps)
	}
}

// TestMoreThanCanBeWritten: Add does not wait for a disk, and what is dropped is said, with its number.
func TestMoreThanCanBeWritten(t *testing.T) {
	h := start(t, Config{Folder: t.TempDir()}, realDisk())
	told := lives(3, 1, "f1", queueEventsMax/3+100)
	h.Add(packed(told...))
	h.write(began)
	last := event(3, uint64(len(told)+1), "agent", "a1", "gone")
	h.Add(packed(last))
	h.write(began)
	got, gaps := pages(t, h, Query{Limit: 1000})
	isNewestFirst(t, got, append(slices.Clone(told[:queueEventsMax]), last))
	if wanted := fmt.Sprintf("%d events between", len(told)-queueEventsMax); len(gaps) != 1 || !strings.HasPrefix(gaps[0], wanted) ||
		!strings.HasSuffix(gaps[0], "more came than could be written") {
		t.Errorf("it says %q", gaps)
	}
	if lost := h.Counts.Lost.Load(); lost != int64(len(told)-queueEventsMax) {
		t.Errorf("%d are counted as lost", lost)
	}
}

// small keeps so little that rings turn within a test.
var small = Config{Bytes: segmentsMin * segmentBytesMin, Age: AgeDefault}

// TestNobodyPushesOutOthers: a framework whose tasks come and go by the thousand pushes out only its own events, neither
// those of another framework nor what no framework has caused; the bounds hold, and after restarts too.
func TestNobodyPushesOutOthers(t *testing.T) {
	config := small
	config.Folder = t.TempDir()
	h := start(t, config, unsynced())
	quiet := lives(3, 1, "quiet", 30)
	elected := event(3, 91, "election", "3", "won")
	h.Add(packed(append(slices.Clone(quiet), elected)...))
	number := uint64(92)
	for round := range 30 {
		told := lives(3, number, "loud", 1500)
		number += uint64(len(told))
		h.Add(packed(told...))
		aside := event(3, number, "task", fmt.Sprintf("quiet/x%d", round), "failed", "framework/quiet")
		number++
		quiet = append(quiet, aside)
		h.Add(packed(aside))
		h.write(began)
		if round%17 == 3 {
			kill(h)
			h = start(t, config, unsynced())
		}
	}
	got, gaps := pages(t, h, Query{Of: "framework/quiet", Limit: 1000})
	isNewestFirst(t, got, quiet)
	if won, _ := pages(t, h, Query{Kinds: []string{"election"}}); len(won) != 1 || len(gaps) > 0 {
		t.Errorf("elections: %v, %q", won, gaps)
	}
	loud, _ := pages(t, h, Query{Of: "framework/loud", Limit: 1000})
	if len(loud) < 10_000 || loud[0].GetCursor().GetNumber() != number-2 {
		t.Errorf("of the loud one there are %d, the newest of which is %v", len(loud), loud[0])
	}
	files, bytes := 0, int64(0)
	entries, err := os.ReadDir(config.Folder)
	for _, entry := range entries {
		info, infoErr := entry.Info()
		if infoErr != nil {
			t.Fatal(infoErr)
		}
		files, bytes = files+1, bytes+info.Size()
	}
	if want := h.notable.bytes + h.routine.bytes; err != nil || bytes != want || bytes > 2*config.Bytes || files > 4*segmentsMin {
		t.Errorf("%d files have %d bytes, which should be %d: %v", files, bytes, want, err)
	}
}

// TestOldEventsGo: nothing is kept for longer than the age, also when little happens.
func TestOldEventsGo(t *testing.T) {
	config := small
	config.Folder = t.TempDir()
	h := start(t, config, realDisk())
	told := lives(3, 1, "f1", 3)
	h.Add(packed(told...))
	h.write(began.Add(time.Minute))
	h.write(began.Add(29 * 24 * time.Hour))
	got, _ := pages(t, h, Query{})
	isNewestFirst(t, got, told)
	h.write(began.Add(31 * 24 * time.Hour))
	if got, _ := pages(t, h, Query{}); len(got) > 0 {
		t.Errorf("after 31 days there are %v", got)
	}
	entries, err := os.ReadDir(config.Folder)
	if err != nil || len(entries) > 0 {
		t.Errorf("their files are %v, %v", entries, err)
	}
}

// TestAClockThatIsAheadForgetsNothing: what is too old by a clock that is a year ahead as the master starts, or that
// somebody sets ahead while it runs, stays for an hour, in which the clock may be put right. (R23)
func TestAClockThatIsAheadForgetsNothing(t *testing.T) {
	const year = 365 * 24 * time.Hour
	config := small
	config.Folder = t.TempDir()
	h := start(t, config, realDisk())
	told := lives(3, 1, "f1", 3)
	h.Add(packed(told...))
	h.write(clock.At(began, 0))
	if err := h.end(); err != nil {
		t.Fatal(err)
	}
	h = start(t, config, realDisk())
	for _, look := range []struct{ ahead, passed time.Duration }{{year, 0}, {year, 59 * time.Minute}, {0, time.Hour}, {0, 3 * time.Hour}, {year, 4 * time.Hour}, {year, 299 * time.Minute}} {
		h.write(clock.At(began.Add(look.ahead+look.passed), look.passed))
		got, _ := pages(t, h, Query{})
		isNewestFirst(t, got, told)
	}
	h.write(clock.At(began.Add(year+5*time.Hour), 5*time.Hour))
	if got, _ := pages(t, h, Query{}); len(got) > 0 {
		t.Errorf("a clock that has shown its time for an hour is not believed: there are %v", got)
	}
}

// TestACrashWhileSegmentsAreJoined leaves what joining has left at each of its steps: nothing is lost or there twice.
func TestACrashWhileSegmentsAreJoined(t *testing.T) {
	before, after := t.TempDir(), t.TempDir()
	config := small
	config.Folder = after
	h := start(t, config, realDisk())
	var told []*apiv1.Event
	for i := range 4 { // each start begins a segment of its own
		part := lives(3, uint64(1+30*i), fmt.Sprintf("f%d", i), 10)
		told = append(told, part...)
		h.Add(packed(part...))
		if err := h.end(); err != nil {
			t.Fatal(err)
		}
		h = start(t, config, realDisk())
	}
	copyFiles(t, after, before)
	r := h.notable
	if err := r.drop(map[key]int64{keyOf("framework/f0"): 1, keyOf("framework/f3"): 1}); err != nil {
		t.Fatal(err)
	}
	joined := nameOf("notable", span{1, 4})
	if len(r.segments) != 1 || r.segments[0].name != joined {
		t.Fatalf("the segments are %v", r.segments)
	}
	left, _ := pages(t, start(t, config, realDisk()), Query{})
	if len(left) != len(told)-2 {
		t.Fatalf("%d of %d are left, and 2 were to go", len(left), len(told))
	}
	// The new file has its name, and of the old ones so many are gone.
	for gone := range 5 {
		config.Folder = t.TempDir()
		copyFiles(t, before, config.Folder)
		data, err := os.ReadFile(filepath.Join(after, joined))
		if err != nil {
			t.Fatal(err)
		}
		write(t, config.Folder, joined, data)
		write(t, config.Folder, joined+temporary, data[:len(data)/2])
		for i := 1; i <= gone && i <= 4; i++ {
			if err := os.Remove(filepath.Join(config.Folder, nameOf("notable", span{i, i}))); err != nil {
				t.Fatal(err)
			}
		}
		wanted := left
		if gone == 0 {
			wanted = slices.Clone(told)
			slices.Reverse(wanted)
		}
		got, gaps := pages(t, start(t, config, realDisk()), Query{})
		if len(got) != len(wanted) || !proto.Equal(got[0], wanted[0]) || len(gaps) > 0 {
			t.Errorf("with %d old files gone there are %d events, not %d, and it says %q", gone, len(got), len(wanted), gaps)
		}
	}
}

func write(t testing.TB, folder, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func copyFiles(t testing.TB, from, to string) {
	t.Helper()
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(from, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		write(t, to, entry.Name(), data)
	}
}

// TestAllAtOnce: it is told, written, trimmed and read at the same time. A reader finds each event once and in order,
// whichever segments are joined meanwhile.
func TestAllAtOnce(t *testing.T) {
	config := small
	config.Folder = t.TempDir()
	h := start(t, config, unsynced())
	told := lives(3, 1, "quiet", 50)
	h.Add(packed(told...))
	var writers, readers sync.WaitGroup
	over := make(chan struct{})
	writers.Go(func() {
		number := uint64(len(told) + 1)
		for range 12 {
			loud := lives(3, number, "loud", 2000)
			number += uint64(len(loud))
			h.Add(packed(loud...))
			h.write(began)
		}
	})
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				last := wire.Cursor{}
				q := Query{Limit: 500}
				for range 3 {
					page, err := h.Select(q)
					if err != nil {
						t.Error(err)
						return
					}
					for _, e := range page.Events {
						if at := wire.CursorOf(e.GetCursor()); !last.IsZero() && at.Compare(last) >= 0 {
							t.Errorf("behind %v comes %v", last, at)
						} else {
							last = at
						}
					}
					if q.Before = page.Next; q.Before.IsZero() {
						break
					}
				}
			}
		})
	}
	writers.Wait()
	close(over)
	readers.Wait()
	got, gaps := pages(t, h, Query{Of: "framework/quiet", Limit: 1000})
	isNewestFirst(t, got, told)
	if len(gaps) > 0 {
		t.Errorf("it says %q", gaps)
	}
}

// TestAnEndThatWasToldIsKnown: whoever leads next asks its history of the ends that agents report (R65).
func TestAnEndThatWasToldIsKnown(t *testing.T) {
	h := start(t, Config{Folder: t.TempDir()}, unsynced())
	for i, one := range []struct{ task, what string }{
		{"f1/t1", "launched"}, {"f1/t1", "finished"}, {"f1/t2", "dropped"}, {"f1/t2", "launched"}, {"f1/t3", "running"}, {"f2/t1", "failed"},
	} {
		h.Add(packed(event(1, uint64(i+1), "task", one.task, one.what, "agent/a1")))
	}
	h.write(began)
	asked := map[string]string{"f1/t1": "finished", "f1/t2": "dropped", "f1/t3": "finished", "f2/t1": "finished", "f1/t4": "finished"}
	if got := h.Ended(asked, began); !maps.Equal(got, map[string]bool{"f1/t1": true, "f1/t2": false}) {
		t.Errorf("of %v it knows %v", asked, got)
	}
	if got := h.Ended(asked, began.Add(time.Hour)); len(got) > 0 {
		t.Errorf("it knows of an hour later %v", got)
	}
}
