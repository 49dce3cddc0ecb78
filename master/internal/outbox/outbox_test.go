package outbox

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/api"
)

func never(int) bool { return false }

// nobody sends.
func nobody(func()) {}

// TestMessagesAreDropped (R34): of what is delivered at most once only little waits for a stream, and the rest is
// dropped. Nothing else is dropped, and no stream ends because of what others send to it.
func TestMessagesAreDropped(t *testing.T) {
	const message = 64 << 10
	q := New(func(e int) int { return e }, func(e int) bool { return e == message }, Stream[int]{Beside: nobody})
	dropped := 0
	for range 2 * queueBytesMax / message {
		switch q.Put(message) {
		case PutDropped:
			dropped++
		case PutTooMuch:
			t.Fatal("its stream ends for what others have sent")
		case PutFirst, PutBehind:
		}
	}
	if waits := 2*queueBytesMax/message - dropped; waits != messagesBytesMax/message || q.bytes != messagesBytesMax {
		t.Errorf("%d messages wait, %d bytes", waits, q.bytes)
	}
	if q.Put(100) != PutBehind {
		t.Error("what is no message is not queued behind them")
	}
	q.Close(nil)
	for done := false; !done; {
		_, done = q.take()
	}
	if q.loose != 0 || q.bytes != 0 {
		t.Errorf("nothing waits, and %d bytes of messages are counted, %d of all", q.loose, q.bytes)
	}
	huge := New(func(e int) int { return e }, func(int) bool { return true }, Stream[int]{Beside: nobody})
	if huge.Put(2*messagesBytesMax) != PutFirst {
		t.Error("one message that is larger than all may be is dropped")
	}
}

// TestWriterTakesALittle (R34): what waits for a stream is made into messages a little at a time, and its end is told
// with the last of it.
func TestWriterTakesALittle(t *testing.T) {
	q := New(func(e int) int { return e }, never, Stream[int]{Beside: nobody})
	for range 3 {
		q.Put(200 << 10)
	}
	for range 3 * takeEventsMax {
		q.Put(1)
	}
	q.Close(api.E("session", api.Removed, "", nil))
	var took []int
	for done := false; !done; {
		var events []int
		events, done = q.take()
		took = append(took, len(events))
	}
	if want := []int{2, takeEventsMax, takeEventsMax, takeEventsMax, 1}; len(took) != len(want) || took[0] != 2 || took[4] != 1 || q.bytes != 0 {
		t.Errorf("it took %v of it, %d bytes are left", took, q.bytes)
	}
}

// TestNobodyWritesNothing (R34): a stream for which there is nothing has no writer, before the first event and after each.
func TestNobodyWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun, alive atomic.Int32
		beside := func(run func()) {
			begun.Add(1)
			alive.Add(1)
			go func() {
				defer alive.Add(-1)
				run()
			}()
		}
		read, sent := make(chan struct{}), []int{}
		q := New(func(e int) int { return e }, never, Stream[int]{Beside: beside, Send: func(_ *Patience, events []int) error {
			<-read
			sent = append(sent, events...)
			return nil
		}})
		writers := func(when string, wantBegun, wantAlive int32) {
			t.Helper()
			if synctest.Wait(); begun.Load() != wantBegun || alive.Load() != wantAlive {
				t.Errorf("%s: %d writers have begun and %d live, want %d and %d", when, begun.Load(), alive.Load(), wantBegun, wantAlive)
			}
		}
		put := func(event int) {
			q.Put(event)
			q.Flush()
		}
		writers("at first", 0, 0)
		put(1)
		writers("while the first event is not read", 1, 1)
		put(2)
		put(3)
		writers("what comes meanwhile is for the same writer", 1, 1)
		close(read)
		writers("all is sent", 1, 0)
		put(4)
		writers("another event is sent", 2, 0)
		q.Put(5)
		q.Close(api.E("session", api.Removed, "", nil))
		if err := q.Wait(t.Context()); !api.Is(err, api.Removed) || !slices.Equal(sent, []int{1, 2, 3, 4, 5}) {
			t.Errorf("it sent %v: %v", sent, err)
		}
	})
}

// TestStreamsEnd: a closed stream gives the last events their time, and no more; whoever must end it is told why, once.
func TestStreamsEnd(t *testing.T) {
	removed := api.E("session", api.Removed, "", nil)
	for _, test := range []struct {
		name  string
		deaf  bool // its peer reads nothing
		event bool
		end   func(q *Queue[int])
		want  api.Kind
		took  time.Duration
	}{
		{"it is closed behind an event", false, true, func(q *Queue[int]) { q.Close(removed) }, api.Removed, 0},
		{"it is closed in silence", false, false, func(q *Queue[int]) { q.Close(removed) }, api.Removed, 0},
		{"it is closed and its peer reads nothing", true, true, func(q *Queue[int]) { q.Close(removed) }, api.Removed, lastSendTimeMax},
		{"its peer reads nothing", true, true, func(*Queue[int]) {}, api.Limit, sendTimeMax},
		{"too much waits", true, true, func(q *Queue[int]) { q.Put(queueBytesMax) }, api.Limit, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				read, told := make(chan struct{}), make(chan error, 2)
				defer close(read)
				if !test.deaf {
					read = nil
				}
				q := New(func(e int) int { return e }, never, Stream[int]{
					Beside: func(run func()) { go run() }, HangUp: func(why error) { told <- why },
					Send: func(slow *Patience, _ []int) error {
						return slow.During(func() error {
							if read != nil {
								<-read
							}
							return nil
						})
					},
				})
				began := time.Now()
				if test.event {
					q.Put(1)
					q.Flush()
				}
				test.end(q)
				err := q.Wait(t.Context())
				if !api.Is(err, test.want) || time.Since(began) != test.took {
					t.Errorf("it ended after %v with %v", time.Since(began), err)
				}
				if why := <-told; !errors.Is(why, err) || len(told) > 0 {
					t.Errorf("who ends it is told %v", why)
				}
			})
		})
	}
}
