// Package watching tells watchers what changes. The leader's loop appends compact records to a [Stream] and does nothing
// else for them. While somebody watches, a source turns them into the entries of a [Log]: from the stream at the leader,
// from the leader's own watch at a follower. Each watcher reads the log at its own pace. A watcher that falls behind the
// log is ended; it costs nothing but its place.
package watching

import (
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/change"
)

const (
	// streamRecordsMax is how many changes a leader remembers for sources. The oldest are forgotten, and whoever comes for
	// them is told.
	streamRecordsMax = 65_536
	// chunkRecords is how many of them are forgotten together.
	chunkRecords = 128
)

// Stream holds those changes of one term that its sources have not read. Append is for the leader's loop and never waits
// for a reader.
type Stream struct {
	Term   api.Term
	Leader api.MasterID
	// Told returns the tasks of those ends that earlier leaders have told, as far as that is remembered. Nil: nothing is.
	Told func(ends []End) map[string]bool

	mu     sync.Mutex
	chunks []*chunk      // guarded by mu, as all below; all but the last are full
	base   uint64        // the place of the first record in them
	before uint64        // how many events came before that
	shows  bool          // there is a source of views
	shown  uint64        // the place up to which it has read
	next   uint64        // the place of the next record
	events uint64        // how many of the records are events
	wake   chan struct{} // closed by the next Append; nil: nobody waits
}

// chunk holds records that follow each other, from a multiple of their number on.
type chunk [chunkRecords]numbered

var chunks = sync.Pool{New: func() any { return new(chunk) }}

// at returns the record at a place that is remembered. Callers hold mu, as for forget.
func (s *Stream) at(place uint64) *numbered {
	return &s.chunks[(place-s.base)/chunkRecords][place%chunkRecords]
}

// forget forgets the chunks before a place.
func (s *Stream) forget(place uint64) {
	for s.base+chunkRecords <= place {
		first := s.chunks[0]
		s.before = first[chunkRecords-1].number
		s.base, s.chunks = s.base+chunkRecords, s.chunks[1:]
		*first = chunk{}
		chunks.Put(first)
	}
}

// Hold keeps what follows a place for the source of views, until it has read that or is released.
func (s *Stream) Hold(place uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shows, s.shown = true, place
}

// Release says that there is no source of views any more.
func (s *Stream) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shows = false
}

// Logged says that the log of events has all events up to a place. What the source of views has read as well is forgotten.
func (s *Stream) Logged(place uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shows {
		place = min(place, s.shown)
	}
	s.forget(place)
}

// End is how a task has ended, as a new leader hears it from the report of the task's agent.
type End struct {
	Task, What string    // FRAMEWORK/TASK, and the word of its event
	At         time.Time // by the agent's clock
}

// toldBefore returns the tasks whose ends earlier leaders have told.
func (s *Stream) toldBefore(records []numbered) map[string]bool {
	var ends []End
	for i := range records {
		if r := &records[i]; r.Heard != nil && r.event == nil && s.Told != nil {
			ends = append(ends, End{string(r.Framework) + "/" + string(r.Task), string(r.What), *r.Heard})
		}
	}
	if ends == nil {
		return nil
	}
	return s.Told(ends)
}

// numbered is a record with the number of the latest event, which is the record itself if it is one.
type numbered struct {
	change.Record
	number uint64
	event  []byte // encoded, once a source has wanted it; nil: none has, or it is no event
}

// Append adds records, in order.
func (s *Stream) Append(records []change.Record) {
	if len(records) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range records {
		if records[i].IsEvent() {
			s.events++
		}
		one := numbered{Record: records[i], number: s.events}
		one.Wanted = nil // for metrics only
		if s.next%chunkRecords == 0 {
			s.chunks = append(s.chunks, chunks.Get().(*chunk))
		}
		*s.at(s.next) = one
		s.next++
	}
	s.forget(s.next - min(s.next, streamRecordsMax))
	if s.wake != nil {
		close(s.wake)
		s.wake = nil
	}
}

// Head returns the place behind the latest record, and the number of the latest event.
func (s *Stream) Head() (place, number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next, s.events
}

// read reads up to most records from a place on into memory that is used again, and returns the cursor behind the last
// event there. It returns false if the records there are forgotten.
func (s *Stream) read(from uint64, most int, into []numbered) (records []numbered, at wire.Cursor, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at.Term = s.Term
	if from < s.base {
		return into, at, false
	}
	to := min(s.next, from+uint64(most))
	for place := from; place < to; place = from + uint64(len(into)) {
		part := s.chunks[(place-s.base)/chunkRecords][place%chunkRecords:]
		into = append(into, part[:min(uint64(len(part)), to-place)]...)
	}
	if at.Number = s.before; to > s.base {
		at.Number = s.at(to - 1).number
	}
	return into, at, true
}

// keepEvents keeps what was encoded of the records from a place on, for the other source of this master.
func (s *Stream) keepEvents(from uint64, records []numbered) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for place := max(from, s.base); place < from+uint64(len(records)); place++ {
		s.at(place).event = records[place-from].event
	}
}

// Begun returns the place of the first record of the term; false when that is forgotten.
func (s *Stream) Begun() (place uint64, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return 0, s.base == 0
}

// After returns the place behind the event with this number. It returns false if what follows is forgotten.
func (s *Stream) After(number uint64) (place uint64, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for place = s.next; place > s.base; place-- {
		if s.at(place-1).number <= number {
			return place, true
		}
	}
	return s.base, s.before <= number
}

// Wait returns a channel that is closed when there are records from this place on.
func (s *Stream) Wait(place uint64) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if place < s.next {
		return closed
	}
	if s.wake == nil {
		s.wake = make(chan struct{})
	}
	return s.wake
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
