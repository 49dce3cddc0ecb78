package core_test

import (
	"testing"
	"time"

	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/transcript"
	"github.com/tenderhq/tender/master/core"
)

// TestServed: what a batch freed is offered by the next allocation, and the time that
// counts begins when what freed it came to the master, not when its turn came.
func TestServed(t *testing.T) {
	w := newWorld(policyNamed("fairshare"), core.Config{})
	w.lead()
	var since []time.Time
	w.onEffect = func(effect core.Effect) {
		if served, is := effect.(core.Served); is {
			since = append(since, served.Since...)
		}
	}
	w.newAgent(transcript.Line{Words: []string{"a1"}, Named: map[string]string{"cpus": "4", "mem": "4096"}})
	w.newFramework(transcript.Line{Words: []string{"f1"}})
	w.newFramework(transcript.Line{Words: []string{"f2"}})
	if len(since) > 0 {
		t.Fatalf("the first offer returns nothing, but counts %v", since)
	}
	f1, f2 := w.frameworks["f1"], w.frameworks["f2"]
	decline := func(f *fakeFramework) {
		for id := range f.offers {
			w.call(f, protocol.Decline{Offers: offerIDs(string(id)), Filter: filterOf(transcript.Line{Named: map[string]string{"refuse": "60s"}})})
		}
	}
	came := w.now
	w.now = w.now.Add(3 * time.Millisecond)
	f1.call++
	for id := range f1.offers {
		calls := []protocol.NumberedCall{{Number: f1.call, Call: protocol.Decline{Offers: offerIDs(string(id)), Filter: filterOf(transcript.Line{Named: map[string]string{"refuse": "60s"}})}}}
		w.perform(w.core.Step(core.Event{At: w.now, Came: came, What: core.SchedulerCalled{Conn: f1.conn, Calls: calls}}))
	}
	w.settle()
	if len(f2.offers) != 1 || len(since) != 1 || !since[0].Equal(came) {
		t.Fatalf("f2 holds %d offers; free since %v, want %v", len(f2.offers), since, came)
	}
	// Nobody wants it for a minute: no time counts.
	decline(f2)
	w.pass(time.Minute)
	if f := len(f1.offers); f == 0 || len(since) != 1 {
		t.Fatalf("after the filters f1 has seen %d offers; %v", f, since)
	}
}
