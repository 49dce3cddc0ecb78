package agent

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// largeBytes is the size of a large message.
const largeBytes = api.MessageBytesMax / 2

// An executor that sends more messages than the leader takes fills half of the leader's queue, not more. Further
// messages are dropped and counted, the session goes on, and statuses still find room (R34).
func TestMessagesNeverEndTheSession(t *testing.T) {
	link := &leaderLink{
		conn: 1, out: newOutbox(outboxLimits{leaderCallsMax, leaderBytesMax}, leaderCallBytes),
		leave: func(error) { t.Error("the session was ended") },
	}
	a := build(&Config{})
	a.leader.stream = link
	const messages = 4 * leaderBytesMax / largeBytes
	for range messages {
		a.leader.send(core.ToLeader{Conn: 1, Call: protocol.MessageFromExecutor{Data: make([]byte, largeBytes)}})
	}
	waiting := len(link.out.items)
	if link.out.bytes > leaderBytesMax/2 || waiting == 0 {
		t.Errorf("%d messages with %d bytes wait; at most %d bytes may", waiting, link.out.bytes, leaderBytesMax/2)
	}
	if dropped := int(a.metrics.dropped.Load()); dropped != messages-waiting {
		t.Errorf("%d messages were counted as dropped; %d were told and %d wait", dropped, messages, waiting)
	}
	a.leader.send(core.ToLeader{Conn: 1, Call: protocol.StatusUpdate{Status: api.Status{Task: "t1"}}})
	if len(link.out.items) != waiting+1 {
		t.Error("a status found no room")
	}
}

// A scheduler that sends an executor more than the executor reads fills half of that executor's queue, not more.
func TestMessagesToASlowExecutor(t *testing.T) {
	link := &executorLink{
		out:    newOutbox(outboxLimits{executorEventsMax, executorBytesMax}, outgoing.bytes),
		cancel: func() { t.Error("the stream was ended") },
	}
	a := build(&Config{})
	a.executors.links[1] = link
	for range 4 * executorBytesMax / largeBytes {
		a.executors.send(1, outgoing{event: protocol.ExecutorMessage{Data: make([]byte, largeBytes)}})
	}
	if link.out.bytes > executorBytesMax/2 || a.metrics.dropped.Load() == 0 {
		t.Errorf("%d bytes wait, at most %d may; %d messages were dropped", link.out.bytes, executorBytesMax/2, a.metrics.dropped.Load())
	}
	a.executors.send(1, outgoing{event: protocol.ExecutorKill{Task: "t1"}})
	if last := link.out.items[len(link.out.items)-1].event; last != (protocol.ExecutorKill{Task: "t1"}) {
		t.Errorf("a kill found no room: the last event that waits is %T", last)
	}
}

// The messages to all executors together are limited. Those that are taken, or whose stream ends, make room (R34).
func TestMessagesToAllExecutors(t *testing.T) {
	a := build(&Config{})
	const links = 2 * executorsBytesMax / (executorBytesMax / 2)
	for conn := range core.Conn(links) {
		link := &executorLink{out: newOutbox(outboxLimits{executorEventsMax, executorBytesMax}, outgoing.bytes)}
		link.out.common = a.executors.telling
		a.executors.links[conn] = link
		for range executorBytesMax / 2 / largeBytes {
			a.executors.send(conn, outgoing{event: protocol.ExecutorMessage{Data: make([]byte, largeBytes)}})
		}
		a.executors.send(conn, outgoing{event: protocol.ExecutorKill{Task: "t1"}})
	}
	bytes := 0
	for _, link := range a.executors.links {
		bytes += link.out.bytes
		if last := link.out.items[len(link.out.items)-1].event; last != (protocol.ExecutorKill{Task: "t1"}) {
			t.Errorf("a kill found no room: the last event that waits is %T", last)
		}
	}
	if dropped := a.metrics.dropped.Load(); bytes != executorsBytesMax || dropped != executorsBytesMax/largeBytes {
		t.Errorf("%d bytes wait, at most %d may; %d messages were dropped", bytes, executorsBytesMax, dropped)
	}
	if _, more := a.executors.links[0].out.take(t.Context()); !more {
		t.Error("it is closed")
	}
	a.executors.links[1].out.discard()
	if left := a.executors.telling.left.Load(); left != executorBytesMax {
		t.Errorf("%d bytes are free, %d were taken or given up", left, executorBytesMax)
	}
}

// A leader that takes nothing loses its stream by the number of bytes, long before the number of calls.
func TestStatusesEndASessionThatTakesNothing(t *testing.T) {
	ended := 0
	link := &leaderLink{
		conn: 1, out: newOutbox(outboxLimits{leaderCallsMax, leaderBytesMax}, leaderCallBytes),
		leave: func(error) { ended++ },
	}
	a := build(&Config{})
	a.leader.stream = link
	for range leaderBytesMax/api.StatusDataBytesMax + 1 {
		a.leader.send(core.ToLeader{Conn: 1, Call: protocol.StatusUpdate{Status: api.Status{Data: make([]byte, api.StatusDataBytesMax)}}})
	}
	if ended == 0 || link.out.bytes > leaderBytesMax {
		t.Errorf("the session ended %d times, with %d bytes waiting", ended, link.out.bytes)
	}
}

// What nobody waits for is taken with the next item, or after a moment.
func TestItemsForLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(outboxLimits{4, 4}, func(int) int { return 1 })
		began := time.Now()
		take := func(after time.Duration, want ...int) {
			t.Helper()
			if items, more := o.take(t.Context()); !slices.Equal(items, want) || !more || time.Since(began) != after {
				t.Errorf("%v after %v, want %v after %v", items, time.Since(began), want, after)
			}
			began = time.Now()
		}
		for range 2 { // the timer serves again
			o.putLater(1)
			take(laterWait, 1)
		}
		o.putLater(2)
		o.putLater(3)
		o.put(4)
		take(0, 2, 3, 4)
		for i := range 4 {
			o.put(i)
		}
		if o.putLater(4) {
			t.Error("a full queue took one more")
		}
	})
}
