package watching

import (
	"bytes"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/change"
)

// Batch is what a source tells at once, in order: what has happened, and views of what that has made out of date. Its
// memory is used again for what is told next.
type Batch struct {
	Entries []Entry
	At      wire.Cursor // behind the last event

	records []numbered
	rows    []row
	at      map[change.Row]int // where a row is in rows
	asked   int                // how many of the rows NextStale has passed
}

// row is a thing that something has happened to, or whose view is out of date.
type row struct {
	name  change.Row
	event int // the place of its latest event in the entries; noEvent: there is none
}

const noEvent = -1

// Read adds the events among up to most records of a stream, from a place on, and returns the place behind them. With
// views it notes what they are of and what they make out of date. It returns false if the records there are forgotten.
func (b *Batch) Read(stream *Stream, from uint64, most int, views bool) (next uint64, known bool) {
	if b.records, b.At, known = stream.read(from, most, b.records[:0]); !known {
		return 0, false
	}
	stream.encode(from, b.records)
	for i := range b.records {
		one := &b.records[i]
		event := noEvent
		if one.IsEvent() {
			event = len(b.Entries)
			b.Entries = append(b.Entries, Entry{cursor: wire.Cursor{Term: stream.Term, Number: one.number}, event: one.event})
		}
		if !views {
			continue
		}
		if event != noEvent {
			b.rows[b.note(one.Of())].event = event
		}
		one.Touches(func(name change.Row) { b.note(name) })
	}
	return from + uint64(len(b.records)), true
}

// note returns where a row is in rows.
func (b *Batch) note(name change.Row) int {
	i, is := b.at[name]
	if !is {
		if b.at == nil {
			b.at = make(map[change.Row]int)
		}
		i = len(b.rows)
		b.at[name], b.rows = i, append(b.rows, row{name, noEvent})
	}
	return i
}

// NextStale returns the next row of the lists of agents, frameworks, tasks or offers that is out of date; false when there
// is no more.
func (b *Batch) NextStale() (change.Row, bool) {
	for b.asked < len(b.rows) {
		name := b.rows[b.asked].name
		b.asked++
		switch name.Kind {
		case change.Agent, change.Framework, change.Task, change.Offer:
			return name, true
		}
	}
	return change.Row{}, false
}

// Attach adds the view of a row, to its latest event or as an entry of its own.
func (b *Batch) Attach(name change.Row, message *apiv1.Change) { b.attach(name, viewOf(message)) }

// AttachGone adds that a row is no more, if the log has shown it.
func (b *Batch) AttachGone(name change.Row, log *Log) {
	if gone := log.gone(name); gone != nil {
		b.attach(name, gone)
	}
}

// AttachLists adds the views of all things of some kinds, and that those are no more which only the log has.
func (b *Batch) AttachLists(kinds []change.Kind, all []*apiv1.Change, log *Log) {
	there := make(map[change.Row]bool, len(all))
	for _, message := range all {
		kind, name := wire.ChangeName(message)
		row := change.Row{Kind: change.Kind(kind), Name: name}
		there[row] = true
		b.Attach(row, message)
	}
	for _, row := range log.names(kinds) {
		if !there[row] {
			b.AttachGone(row, log)
		}
	}
}

func (b *Batch) attach(name change.Row, view *shown) {
	if i, is := b.at[name]; is && b.rows[i].event != noEvent {
		e := &b.Entries[b.rows[i].event]
		if name.Kind != change.Task { // the view of a task says all
			view.thing = view.or(e.of())
		}
		e.shown = view
		return
	}
	b.Entries = append(b.Entries, Entry{cursor: b.At, shown: view})
}

// Tell puts everything into a log. whole says that the log knows everything up to the cursor with it. Rows that are out of
// date stay so.
func (b *Batch) Tell(log *Log, whole bool) {
	log.Put(b.Entries, b.At, whole)
	clear(b.Entries)
	b.Entries = b.Entries[:0]
	for i := range b.rows {
		b.rows[i].event = noEvent
	}
}

// Clear begins anew.
func (b *Batch) Clear() {
	clear(b.Entries)
	clear(b.rows)
	clear(b.at)
	b.Entries, b.rows, b.asked = b.Entries[:0], b.rows[:0], 0
}

// encode encodes those of the events from a place on that no source has wanted before.
func (s *Stream) encode(from uint64, records []numbered) {
	t := describer{stream: s, told: s.toldBefore(records)}
	var encoded []byte
	var ends []int // where each ends in encoded; 0: it is not there
	for i := range records {
		if one := &records[i]; one.IsEvent() && one.event == nil {
			if encoded == nil {
				encoded, ends = make([]byte, 0, eventBytes*(len(records)-i)), make([]int, len(records))
			}
			encoded = t.eventOf(one).Append(encoded)
			ends[i] = len(encoded)
		}
	}
	if encoded == nil {
		return
	}
	exact, begin := bytes.Clone(encoded), 0 // a log keeps it for long
	for i, end := range ends {
		if end > 0 {
			records[i].event, begin = exact[begin:end:end], end
		}
	}
	s.keepEvents(from, records)
}

// eventBytes is about what an encoded event takes.
const eventBytes = 256
