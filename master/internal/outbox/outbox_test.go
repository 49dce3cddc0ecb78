package outbox

import (
	"testing"
	"testing/synctest"

	"github.com/tenderhq/tender/api"
)

func never(int) bool { return false }

// TestMessagesAreDropped (R34): of what travels at most once little waits for a stream, and the rest is dropped; nothing else
// is, and nobody loses a stream for what others send him.
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
		_, done, _ = q.take(t.Context())
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
		events, over, err := q.take(t.Context())
		if over != (err != nil) {
			t.Errorf("over: %v, and why: %v", over, err)
		}
		took, done = append(took, len(events)), over
	}
	if want := []int{2, takeEventsMax, takeEventsMax, takeEventsMax, 1}; len(took) != len(want) || took[0] != 2 || took[4] != 1 || q.bytes != 0 {
		t.Errorf("it took %v of it, %d bytes are left", took, q.bytes)
	}
}

// TestNobodyWritesNothing (R34): a stream for which there is nothing has no writer; then one writes all of it to the end.
func TestNobodyWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, writers := New(func(e int) int { return e }, never), 0
		serving := Serving{Beside: func(run func()) { writers++; go run() }, Over: make(chan struct{})}
		var sent []int
		ended := make(chan error, 1)
		go func() {
			ended <- WriteAll(t.Context(), serving, q, func(_ *Patience, events []int) error {
				sent = append(sent, events...)
				return nil
			})
		}()
		synctest.Wait()
		if writers != 0 {
			t.Errorf("%d writers wait for nothing", writers)
		}
		q.Put(1)
		q.Flush()
		synctest.Wait()
		q.Put(2)
		q.Close(api.E("session", api.Removed, "", nil))
		if err := <-ended; !api.Is(err, api.Removed) || writers != 1 || len(sent) != 2 {
			t.Errorf("%d writers sent %v: %v", writers, sent, err)
		}
		silent := New(func(e int) int { return e }, never)
		silent.Close(api.E("session", api.Unavailable, "", nil))
		if err := WriteAll(t.Context(), serving, silent, nil); !api.Is(err, api.Unavailable) {
			t.Errorf("a stream that was closed in silence ends with %v", err)
		}
	})
}
