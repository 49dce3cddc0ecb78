package watching

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/registry"
)

// teller stands for the leaders: what there is, and how many events its term has had.
type teller struct {
	log   *Log
	at    wire.Cursor
	there map[string]int32 // agents, with their number of tasks
}

func (l *teller) shown(name string) *apiv1.Change {
	tasks, is := l.there[name]
	if !is {
		return &apiv1.Change{Removed: "agent/" + name}
	}
	return &apiv1.Change{View: &apiv1.Change_Agent{Agent: &apiv1.AgentView{Id: name, Tasks: tasks}}}
}

// change changes an agent: with an event, or only its figures.
func (l *teller) change(name string, tasks int32, event bool) Entry {
	if l.there[name] = tasks; tasks == 0 {
		delete(l.there, name)
	}
	change := l.shown(name)
	if event {
		l.at.Number++
		change.Event = &apiv1.Event{Cursor: l.at.Proto(), Kind: "agent", Name: name, What: fmt.Sprint(tasks)}
	}
	return Changed(change, l.at)
}

// lead begins the next term. Some of what the former leader did was told to nobody.
func (l *teller) lead(lost int32) {
	if lost > 0 {
		l.there["lost"] = lost
	}
	l.at = wire.Cursor{Term: api.Term{Number: l.at.Term.Number + 1}}
	l.log.Forget(l.at, "another master leads")
	if !l.log.views {
		l.log.Put(nil, l.at, true)
		return
	}
	var state []Entry
	for name := range l.there { // order: irrelevant because the state has none
		state = append(state, Changed(l.shown(name), l.at))
	}
	l.log.Put(state, l.at, true)
}

// hearer watches, over as many streams as it takes, and checks that it is told everything once and in order.
type hearer struct {
	t     *rapid.T
	log   *Log
	read  *reading
	after *apiv1.Cursor
	last  wire.Cursor // the latest event; zero after something was missed
	has   map[string]int32

	packed bool // it asks for packed events
}

func (h *hearer) connect() {
	h.read = &reading{log: h.log, Watcher: Watcher{By: rights.All(), Send: h.take,
		Request: &apiv1.WatchRequest{After: h.after, EventsOnly: !h.log.views, Packed: h.packed}}}
	h.read.class = classOf(&h.read.Watcher)
	if err := h.read.begin(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

// heard notes the next event.
func (h *hearer) heard(at wire.Cursor) {
	if h.last != (wire.Cursor{}) && (at.Term != h.last.Term || at.Number != h.last.Number+1) {
		h.t.Fatalf("after event %v comes %v", h.last, at)
	}
	h.last = at
}

func (h *hearer) take(news *apiv1.WatchResponse) error {
	wired, err := proto.Marshal(news) // as it goes over the wire: views are bytes that are not read
	if err == nil {
		news = &apiv1.WatchResponse{}
		err = proto.Unmarshal(wired, news)
	}
	if err != nil {
		return err
	}
	if news.GetMissed() != "" {
		h.last, h.after = wire.Cursor{}, nil
		clear(h.has)
	}
	for encoded := range wire.Unpack(news.GetPacked()) {
		var event wire.Event
		if err := event.Read(encoded); err != nil {
			return err
		}
		h.heard(event.Cursor)
	}
	for _, item := range news.GetItems() {
		if event := item.GetEvent(); event != nil {
			h.heard(wire.CursorOf(event.GetCursor()))
		}
		if _, name := wire.ChangeName(item); item.GetRemoved() != "" {
			delete(h.has, name)
		} else if name != "" {
			h.has[name] = item.GetAgent().GetTasks()
		}
	}
	if news.GetComplete() {
		h.after = news.GetCursor()
	}
	return nil
}

// listen hears up to n parts of what is new; all of it if n is negative.
func (h *hearer) listen(n int) {
	for ; n != 0; n-- {
		_, told, err := h.read.step(h.t.Context())
		if err != nil {
			h.t.Fatal(err)
		}
		if told == 0 {
			return
		}
	}
}

// TestWatchersMissNothing: through new leaders and broken streams a watcher sees every event once and in order, or is
// told that it has missed something; at rest its copy equals what there is (R68).
func TestWatchersMissNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		views := rapid.Bool().Draw(t, "views")
		l := &teller{log: NewLog(views), there: make(map[string]int32)}
		l.lead(0)
		var hearers []*hearer
		for range 3 {
			h := &hearer{t: t, log: l.log, has: make(map[string]int32), packed: !views && rapid.Bool().Draw(t, "packed")}
			h.connect()
			hearers = append(hearers, h)
		}
		for range rapid.IntRange(1, 60).Draw(t, "moves") {
			h := hearers[rapid.IntRange(0, 2).Draw(t, "who")]
			switch rapid.IntRange(0, 9).Draw(t, "move") {
			case 0:
				l.lead(rapid.Int32Range(0, 2).Draw(t, "lost"))
			case 1, 2:
				h.connect()
			case 3, 4, 5:
				h.listen(rapid.IntRange(1, 3).Draw(t, "parts"))
			default:
				var batch []Entry
				for range rapid.IntRange(1, 5).Draw(t, "changes") {
					name, event := fmt.Sprint("agent-", rapid.IntRange(1, 4).Draw(t, "agent")), rapid.Bool().Draw(t, "event")
					batch = append(batch, l.change(name, rapid.Int32Range(0, 3).Draw(t, "tasks"), event || !views))
				}
				l.log.Put(batch, l.at, true)
			}
		}
		for i, h := range hearers {
			h.listen(-1)
			if h.last != (wire.Cursor{}) && h.last != l.at && l.at.Number > 0 {
				t.Fatalf("watcher %d has heard event %v, and the last one is %v", i, h.last, l.at)
			}
			if views && !maps.Equal(h.has, l.there) {
				t.Fatalf("watcher %d has %v, and there is %v", i, h.has, l.there)
			}
		}
	})
}

// TestAWatcherThatDoesNotRead is ended once more waits for it than is remembered, and is told when it comes back that it
// has missed something.
func TestAWatcherThatDoesNotRead(t *testing.T) {
	l := &teller{log: NewLog(false), there: make(map[string]int32)}
	l.lead(0)
	var missed string
	watcher := Watcher{By: rights.All(), Request: &apiv1.WatchRequest{EventsOnly: true}, Send: func(news *apiv1.WatchResponse) error {
		missed += news.GetMissed()
		return nil
	}}
	r := &reading{log: l.log, Watcher: watcher}
	if err := r.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.Request.After = l.at.Proto()
	batch := make([]Entry, 0, logEntriesMax+1)
	for range logEntriesMax + 1 {
		batch = append(batch, l.change("agent-1", 1, true))
	}
	l.log.Put(batch, l.at, true)
	if _, _, err := r.step(t.Context()); !api.Is(err, api.Limit) {
		t.Errorf("it is told %v", err)
	}
	again := &reading{log: l.log, Watcher: watcher}
	if err := again.begin(t.Context()); err != nil || missed == "" {
		t.Errorf("when it comes back it is told %q, %v", missed, err)
	}
}

// TestAGapIsToldToWhoComesFromElsewhere: a master that was killed knows less than it had told, and follows a leader of the
// next term. Whoever it had told more comes back and hears of the gap; who knows everything behind the gap does not.
func TestAGapIsToldToWhoComesFromElsewhere(t *testing.T) {
	at := func(term, number uint64) wire.Cursor {
		return wire.Cursor{Term: api.Term{Number: term}, Number: number}
	}
	event := func(term, number uint64) *apiv1.Change {
		return &apiv1.Change{Event: &apiv1.Event{Cursor: at(term, number).Proto(), Kind: "agent", Name: "agent-1", What: "running"}}
	}
	log := NewLog(false)
	log.Seed(at(6, 400)) // by its history
	err := log.Take(&apiv1.WatchResponse{Missed: "another master leads", Items: []*apiv1.Change{event(7, 1), event(7, 2)}, Cursor: at(7, 2).Proto(), Complete: true}, "")
	if err != nil {
		t.Fatal(err)
	}
	for after, want := range map[wire.Cursor][2]any{
		at(6, 400): {true, 2}, at(6, 457): {true, 2}, at(7, 0): {false, 2}, at(7, 1): {false, 1}, at(7, 2): {false, 0},
	} {
		missed, events := false, 0
		r := &reading{log: log, Watcher: Watcher{By: rights.All(), Decode: true, Request: &apiv1.WatchRequest{EventsOnly: true, After: after.Proto()},
			Send: func(news *apiv1.WatchResponse) error {
				missed, events = missed || news.GetMissed() != "", events+len(news.GetItems())
				return nil
			}}}
		told, err := 1, r.begin(t.Context())
		for told > 0 && err == nil {
			_, told, err = r.step(t.Context())
		}
		if got := [2]any{missed, events}; err != nil || got != want {
			t.Errorf("who knows everything up to %v is told of a gap and %v events, want %v (%v)", after, got, want, err)
		}
	}
}

// TestWhoFollowsFromTheBeginningMissesNothing: a history that is empty is told the events that came before it asked, such
// as the election of the first leader, and that nothing is missing (R70).
func TestWhoFollowsFromTheBeginningMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := NewLog(false)
		at := wire.Cursor{Term: api.Term{Number: 1}}
		log.Forget(at, "another master leads")
		for range 3 {
			at.Number++
			log.Put([]Entry{Changed(&apiv1.Change{Event: &apiv1.Event{Cursor: at.Proto(), Kind: "election", Name: "1", What: "won"}}, at)}, at, true)
		}
		ctx, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		told := 0
		_ = log.Follow(ctx, nil, nil, func(packed []byte, missed string) {
			for range wire.Unpack(packed) {
				told++
			}
			if missed != "" {
				t.Errorf("it is told that something is missing: %s", missed)
			}
		})
		if told != 3 {
			t.Errorf("it is told %d of 3 events", told)
		}
	})
}

// TestWhoIsAheadOfTheLogHearsNothingTwice: who comes from a master that was ahead is told only what it does not know, also
// where the log catches up by several parts at once.
func TestWhoIsAheadOfTheLogHearsNothingTwice(t *testing.T) {
	log, at := NewLog(false), wire.Cursor{Term: api.Term{Number: 1}}
	tell := func(events int) {
		var entries []Entry
		for range events {
			at.Number++
			entries = append(entries, Changed(&apiv1.Change{Event: &apiv1.Event{Cursor: at.Proto(), Kind: "agent", Name: "a", What: "running"}}, at))
		}
		log.Put(entries, at, true)
	}
	tell(10)
	last := uint64(responseItemsMax + 20)
	r := &reading{log: log, Watcher: Watcher{By: rights.All(), Request: &apiv1.WatchRequest{EventsOnly: true, After: wire.Cursor{Term: at.Term, Number: last}.Proto()}}}
	r.class = classOf(&r.Watcher)
	r.Send = func(news *apiv1.WatchResponse) error {
		wired, _ := proto.Marshal(news)
		read := new(apiv1.WatchResponse)
		if err := proto.Unmarshal(wired, read); err != nil {
			return err
		}
		for _, item := range read.GetItems() {
			if last++; item.GetEvent().GetCursor().GetNumber() != last {
				t.Fatalf("told event %d in place of %d", item.GetEvent().GetCursor().GetNumber(), last)
			}
		}
		return nil
	}
	if err := r.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	tell(3 * responseItemsMax)
	if _, _, err := r.step(t.Context()); err != nil || last != at.Number {
		t.Errorf("told up to event %d of %d, %v", last, at.Number, err)
	}
}

// TestAFrameworkOfAnotherRole: who watches a role is told of a framework from when that has taken the role on.
func TestAFrameworkOfAnotherRole(t *testing.T) {
	log := NewLog(true)
	at := wire.Cursor{Term: api.Term{Number: 1}}
	in := func(role string) Entry {
		return Changed(&apiv1.Change{View: &apiv1.Change_Framework{Framework: &apiv1.FrameworkView{Id: "f", Roles: []string{role}}}}, at)
	}
	log.Put([]Entry{in("web")}, at, true)
	told := 0
	r := &reading{log: log, Watcher: Watcher{By: rights.All(), Decode: true, Request: &apiv1.WatchRequest{Role: "batch"}, Send: func(news *apiv1.WatchResponse) error {
		told += len(news.GetItems())
		return nil
	}}}
	if err := r.begin(t.Context()); err != nil || told != 0 {
		t.Fatalf("told %d things of another role, %v", told, err)
	}
	at.Number++
	log.Put([]Entry{in("batch")}, at, true)
	if _, _, err := r.step(t.Context()); err != nil || told != 1 {
		t.Errorf("told %d things, %v", told, err)
	}
}

// TestAnEndIsToldOnce: an end that a new leader hears from a report is told as an end, unless a leader before has told it
// (R65).
func TestAnEndIsToldOnce(t *testing.T) {
	log := NewLog(false)
	tell := func(term uint64, records ...change.Record) (whats []string) {
		stream := &Stream{Term: api.Term{Number: term}, Told: func(ends []End) map[string]bool {
			told := make(map[string]bool)
			for _, end := range ends {
				told[end.Task] = log.Ends().Knows(end.Task, end.What, api.Term{Number: term})
			}
			return told
		}}
		log.Forget(wire.Cursor{Term: stream.Term}, "another master leads")
		for i := range records {
			records[i].Kind, records[i].Framework, records[i].What = change.Task, "f1", change.StateOfTask(api.TaskFinished)
		}
		stream.Append(records)
		batch := new(Batch)
		batch.Read(stream, 0, len(records), false)
		for _, e := range batch.Entries {
			var event wire.Event
			if err := event.Read(e.event); err != nil {
				t.Fatal(err)
			}
			whats = append(whats, event.Name+" "+event.What)
		}
		batch.Tell(log, true)
		return whats
	}
	tell(1, change.Record{Task: "t1"})
	got := tell(2, change.Record{Task: "t1", Heard: &time.Time{}}, change.Record{Task: "t2", Heard: &time.Time{}})
	if want := []string{"f1/t1 reported", "f1/t2 finished"}; !slices.Equal(got, want) {
		t.Errorf("told are %q, want %q", got, want)
	}
}

// TestSourcesShareEvents: an event is encoded once for the two sources of a master, whichever comes first and however far
// each of them reads.
func TestSourcesShareEvents(t *testing.T) {
	stream := &Stream{Term: api.Term{Number: 1}}
	for _, many := range []int{3, streamRecordsMax} {
		stream.Append(make([]change.Record, 1)) // figures only
		for range many {
			stream.Append([]change.Record{{Kind: change.Task, What: change.Launched, Framework: "f1", Task: "t1"}})
		}
		head, _ := stream.Head()
		begun, _, _ := stream.read(head-3, 2, nil)
		all, _, _ := stream.read(head-3, 3, nil)
		stream.encode(head-3, begun)
		stream.encode(head-3, all)
		late := new(Batch)
		late.Read(stream, head-3, 3, true)
		for i, entry := range late.Entries {
			if &entry.event[0] != &all[i].event[0] {
				t.Errorf("event %d of the last three of %d is encoded again by who comes last", i, many)
			}
			// Who has read it before it was encoded has to encode it.
			if i < len(begun) && !bytes.Equal(begun[i].event, all[i].event) {
				t.Errorf("event %d of the last three of %d is told as %q and %q", i, many, begun[i].event, all[i].event)
			}
		}
	}
}

// TestWhatSourcesHaveReadIsForgotten: a record stays until the log of events has it, and the source of views has read it, if
// there is one. Whoever has heard the event before what stays can go on from there.
func TestWhatSourcesHaveReadIsForgotten(t *testing.T) {
	const many = 10 * chunkRecords
	stream := &Stream{Term: api.Term{Number: 1}}
	stream.Hold(0)
	for range many {
		stream.Append([]change.Record{{Kind: change.Task, What: change.Launched, Framework: "f1", Task: "t1"}})
	}
	oldest := func(when string, want uint64) {
		t.Helper()
		_, _, known := stream.read(want, 1, nil)
		if _, _, older := stream.read(want-1, 1, nil); !known || older && want > 0 {
			t.Errorf("%s: record %d is known: %v, the one before: %v", when, want, known, older)
		}
		if place, known := stream.After(want); !known || place != want {
			t.Errorf("%s: behind event %d is place %d, known: %v", when, want, place, known)
		}
		if _, all := stream.Begun(); all != (want == 0) {
			t.Errorf("%s: the begin of the term is known: %v", when, all)
		}
	}
	stream.Logged(many)
	if _, all := stream.Begun(); !all {
		t.Error("what the source of views has not read is forgotten")
	}
	stream.Hold(3*chunkRecords + 5)
	stream.Logged(many)
	oldest("views have come to the fourth chunk", 3*chunkRecords)
	stream.Release()
	stream.Logged(many - 1)
	oldest("without views", many-chunkRecords)
	stream.Logged(many)
	oldest("all is told", many)
	if _, at, _ := stream.read(many, 1, nil); at.Number != many {
		t.Errorf("behind the last event, which is forgotten, the number is %d", at.Number)
	}
}

// TestEventsSayInFieldsWhatWasSet: nobody has to read a sentence to know what was set, given or gone (R71).
func TestEventsSayInFieldsWhatWasSet(t *testing.T) {
	limit := wire.ResourcesStruct(api.Scalars(2, 64))
	large := map[string]string{"note": strings.Repeat("x", setBytesMax)}
	for _, one := range []struct {
		record change.Record
		want   *apiv1.Event
	}{
		{change.Record{Kind: change.Role, What: change.Set, Role: "eng", Why: "set", Set: registry.Role{Priority: 3, Limit: api.Scalars(2, 64)}}, &apiv1.Event{
			Why: "set",
			Set: &apiv1.Event_Role{Role: &apiv1.RoleView{Role: "eng", Weight: 1, Priority: 3, Guarantee: wire.ResourcesStruct(api.Resources{}), Limit: limit}},
		}},
		{change.Record{Kind: change.Principal, What: change.Taken, Name: "eve", Why: "may no more", Set: rights.Grant{Verb: rights.View, Role: "eng"}}, &apiv1.Event{
			Why: "may no more", Set: &apiv1.Event_Grant{Grant: &apiv1.PrincipalGrant{Verb: "view", Role: "eng"}},
		}},
		{change.Record{Kind: change.Agent, What: change.Removed, Agent: "a1", Why: "old", Set: api.Agent{ID: "a1", Hostname: "h", Zone: "z", Resources: api.Scalars(2, 64), Address: "h:1"}}, &apiv1.Event{
			Why: "old", Set: &apiv1.Event_Agent{Agent: &apiv1.AgentView{Id: "a1", Hostname: "h", Zone: "z", Total: limit}},
		}},
		{change.Record{Kind: change.Agent, What: change.Removed, Agent: "a1", Set: api.Agent{ID: "a1", Attributes: large}}, &apiv1.Event{}},
		{change.Record{Kind: change.Framework, What: change.Removed, Framework: "f1", Set: api.Framework{ID: "f1", Name: "spark", Roles: []api.Role{"eng"}}}, &apiv1.Event{
			Set: &apiv1.Event_Framework{Framework: &apiv1.FrameworkView{Id: "f1", Name: "spark", Roles: []string{"eng"}}},
		}},
	} {
		stream := &Stream{Term: api.Term{Number: 1}}
		stream.Append([]change.Record{one.record})
		batch := new(Batch)
		batch.Read(stream, 0, 1, false)
		got := &apiv1.Event{}
		if err := proto.Unmarshal(batch.Entries[0].event, got); err != nil {
			t.Fatal(err)
		}
		if got = (&apiv1.Event{Why: got.GetWhy(), Set: got.GetSet()}); !proto.Equal(got, one.want) {
			t.Errorf("%v is told as %v, want %v", one.record, got, one.want)
		}
	}
}
