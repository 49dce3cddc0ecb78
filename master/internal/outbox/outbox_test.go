package outbox

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/api"
)

func never(int) bool { return false }

// TestMessagesAreDropped (R34): of what is delivered at most once only little waits for a stream, and the rest is
// dropped. Nothing else is dropped, and no stream ends because of what others send to it.
func TestMessagesAreDropped(t *testing.T) {
	const message = 64 << 10
	q := New(func(e int) int { return e }, func(e int) bool { return e == message })
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
		_, done, _ = q.take()
	}
	if q.loose != 0 || q.bytes != 0 {
		t.Errorf("nothing waits, and %d bytes of messages are counted, %d of all", q.loose, q.bytes)
	}
	huge := New(func(e int) int { return e }, func(int) bool { return true })
	if huge.Put(2*messagesBytesMax) != PutFirst {
		t.Error("one message that is larger than all may be is dropped")
	}
}

// TestWriterTakesALittle (R34): what waits for a stream is made into messages a little at a time, and its end is told
// with the last of it.
func TestWriterTakesALittle(t *testing.T) {
	q := New(func(e int) int { return e }, never)
	for range 3 {
		q.Put(200 << 10)
	}
	for range 3 * takeEventsMax {
		q.Put(1)
	}
	q.Close(api.E("session", api.Removed, "", nil))
	var took []int
	for done := false; !done; {
		events, over, err := q.take()
		if over != (err != nil) {
			t.Errorf("over: %v, and why: %v", over, err)
		}
		took, done = append(took, len(events)), over
	}
	if want := []int{2, takeEventsMax, takeEventsMax, takeEventsMax, 1}; len(took) != len(want) || took[0] != 2 || took[4] != 1 || q.bytes != 0 {
		t.Errorf("it took %v of it, %d bytes are left", took, q.bytes)
	}
}

// TestNobodyWritesNothing (R34): a stream for which there is nothing has no writer, before the first event and after each.
func TestNobodyWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(func(e int) int { return e }, never)
		var begun, alive atomic.Int32
		serving := Serving{Over: make(chan struct{}), Beside: func(run func()) {
			begun.Add(1)
			alive.Add(1)
			go func() {
				defer alive.Add(-1)
				run()
			}()
		}}
		read, sent := make(chan struct{}), []int{}
		ended := make(chan error, 1)
		go func() {
			ended <- WriteAll(t.Context(), serving, q, func(_ *Patience, events []int) error {
				<-read
				sent = append(sent, events...)
				return nil
			})
		}()
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
		if err := <-ended; !api.Is(err, api.Removed) || !slices.Equal(sent, []int{1, 2, 3, 4, 5}) {
			t.Errorf("it sent %v: %v", sent, err)
		}
		silent := New(func(e int) int { return e }, never)
		silent.Close(api.E("session", api.Unavailable, "", nil))
		if err := WriteAll(t.Context(), serving, silent, nil); !api.Is(err, api.Unavailable) {
			t.Errorf("a stream that was closed in silence ends with %v", err)
		}
	})
}

// TestStreamsEnd: a leadership that is over gives the last events of a stream their time, and no more.
func TestStreamsEnd(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(q *Queue[int], over chan struct{})
		want api.Kind
		took time.Duration
	}{
		{"its leadership is over, and it is closed", func(q *Queue[int], over chan struct{}) {
			close(over)
			q.Close(api.E("session", api.Removed, "", nil))
		}, api.Removed, 0},
		{"its leadership is over, and nobody closes it", func(_ *Queue[int], over chan struct{}) { close(over) }, api.NotLeader, lastSendTimeMax},
		{"it is closed with nothing to say", func(q *Queue[int], _ chan struct{}) { q.Close(nil) }, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q, over := New(func(e int) int { return e }, never), make(chan struct{})
				serving := Serving{
					Beside: func(run func()) { go run() }, Over: over,
					Ended: func(op string) *api.Error { return api.E(op, api.NotLeader, "", nil) },
				}
				began := time.Now()
				test.end(q, over)
				err := WriteAll(t.Context(), serving, q, func(*Patience, []int) error { return nil })
				if test.want == 0 && err != nil || test.want != 0 && !api.Is(err, test.want) || time.Since(began) != test.took {
					t.Errorf("it ended after %v with %v", time.Since(began), err)
				}
			})
		})
	}
}
