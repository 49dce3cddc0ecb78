package outbox

import (
	"testing"

	"github.com/tenderhq/tender/api"
)

// TestWriterTakesALittle (R34): what waits for a stream is made into messages a little at a time, and its end is told
// with the last of it.
func TestWriterTakesALittle(t *testing.T) {
	q := New(func(e int) int { return e })
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
