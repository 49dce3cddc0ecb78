package framework

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// TestAcknowledgementsWaitForOthers: they are sent together after a moment, or at once with a call, and in order.
func TestAcknowledgementsWaitForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox()
		began := time.Now()
		take := func(want ...int) (after time.Duration) { // how many acknowledgements each call has; -1: it is another call
			t.Helper()
			calls, more := o.await(t.Context())
			if len(calls) != len(want) || !more {
				t.Fatalf("%d calls, want %v", len(calls), want)
			}
			for i, call := range calls {
				acks, is := call.Call.(protocol.Acknowledge)
				if is != (want[i] >= 0) || is && len(acks.Items) != want[i] {
					t.Errorf("call %d is %+v, want %v", call.Number, call.Call, want)
				}
			}
			after = time.Since(began)
			began = time.Now()
			return after
		}
		ack := func(number uint64) { o.acknowledge(number, protocol.Acknowledgement{Task: api.TaskID("t")}) }
		for range 2 { // the timer serves again
			ack(1)
			<-time.After(ackWait / 2)
			ack(2)
			if after := take(2); after != ackWait {
				t.Errorf("they were sent after %v", after)
			}
		}
		ack(3)
		o.put(4, protocol.Teardown{})
		ack(5)
		if after := take(1, -1, 1); after != 0 {
			t.Errorf("a call was sent after %v", after)
		}
		ack(6)
		o.close()
		if calls, more := o.await(t.Context()); len(calls) != 1 || more || time.Since(began) != 0 {
			t.Errorf("%d calls at the end, more: %v, after %v", len(calls), more, time.Since(began))
		}
	})
}
