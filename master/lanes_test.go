package master

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/master/core"
)

// TestFrontLaneGoesFirst: a framework's call passes all agents that wait, and a crowd of
// schedulers keeps no agent out.
func TestFrontLaneGoesFirst(t *testing.T) {
	n := newLanes()
	for i := range laneMax {
		n.agents <- arrival{what: core.AgentClosed{Conn: core.Conn(i)}}
	}
	n.front <- arrival{what: core.SchedulerClosed{}}
	if first, _ := n.next(); first.what != (core.SchedulerClosed{}) {
		t.Fatalf("%d agents were waiting and came first: %v", laneMax, first.what)
	}
	for range laneMax {
		n.front <- arrival{what: core.SchedulerClosed{}}
	}
	agents, since := 0, 0
	for range 2 * laneMax {
		next, waits := n.next()
		if !waits {
			t.Fatal("something waits and nothing is next")
		}
		since++
		closed, isAgent := next.what.(core.AgentClosed)
		if !isAgent {
			continue
		}
		if closed.Conn != core.Conn(agents) {
			t.Fatalf("agent event %d came as number %d", closed.Conn, agents)
		}
		if since > frontRunMax+1 {
			t.Fatalf("an agent has waited for %d others", since)
		}
		agents, since = agents+1, 0
	}
	if next, waits := n.next(); waits || agents != laneMax {
		t.Errorf("%d agents came; left: %v", agents, next.what)
	}
}

// TestGate: so many agents are on their way in; each that comes back frees a place once,
// one that hangs frees its own soon, and who has waited for too long is told so.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, over := make(gate, 2), make(chan struct{})
		began := time.Now()
		enter := func() (func(), bool) { return g.enter(context.Background(), over) }
		quick, _ := enter()
		if _, ok := enter(); !ok || time.Since(began) != 0 {
			t.Fatalf("both places were free: %v after %v", ok, time.Since(began))
		}
		quick()
		quick()
		if _, ok := enter(); !ok || time.Since(began) != 0 {
			t.Fatalf("one has left: %v after %v", ok, time.Since(began))
		}
		if _, ok := enter(); !ok || time.Since(began) != returningTimeMax {
			t.Fatalf("the first one hangs: %v after %v, its time is %v", ok, time.Since(began), returningTimeMax)
		}
		time.AfterFunc(2*returningTimeMax, func() { close(over) })
		for range cap(g) { // the others' time ends
			if _, ok := enter(); !ok {
				t.Fatal("nobody may hang for ever")
			}
		}
		synctest.Wait()
	})
	synctest.Test(t, func(t *testing.T) {
		shut := make(gate) // never a place
		began := time.Now()
		if _, ok := shut.enter(context.Background(), nil); ok || time.Since(began) != returningWaitMax {
			t.Errorf("entered %v after %v", ok, time.Since(began))
		}
		over := make(chan struct{})
		close(over)
		if _, ok := shut.enter(context.Background(), over); ok {
			t.Error("entered a leadership that is over")
		}
	})
}

// TestRedirectsArePaced: the first is sent on at once, ten thousand within five seconds,
// and nobody waits for longer than it may.
func TestRedirectsArePaced(t *testing.T) {
	p, now := newPace(), time.Unix(1000, 0)
	for i := range redirectsPerSecond {
		wait, ok := p.turn(now, time.Second)
		if want := time.Duration(i) * time.Second / redirectsPerSecond; !ok || wait != want {
			t.Fatalf("number %d waits for %v (%v), not %v", i, wait, ok, want)
		}
	}
	p.turn(now, time.Second) // the last of this second
	if wait, ok := p.turn(now, time.Second); ok {
		t.Errorf("one more than a second holds waits for %v", wait)
	}
	if wait, ok := p.turn(now.Add(time.Hour), time.Second); !ok || wait != 0 {
		t.Errorf("an hour later: %v after %v", ok, wait)
	}
}
