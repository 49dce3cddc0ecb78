package intake

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestFrontLaneGoesFirst: a framework's call passes all agents that wait, and a crowd of
// schedulers keeps no agent out.
func TestFrontLaneGoesFirst(t *testing.T) {
	const laneMax, fromFront = 4096, -1
	n := NewLanes[int]()
	by := n.Agents.Inlet(NewSender())
	for i := range laneMax {
		by.PutLast(i)
	}
	front := n.Front.Inlet(NewSender())
	front.PutLast(fromFront)
	if first, _ := n.Next(); first != fromFront {
		t.Fatalf("%d agents were waiting and came first: %v", laneMax, first)
	}
	for range laneMax {
		front.PutLast(fromFront)
	}
	agents, since := 0, 0
	for range 2 * laneMax {
		next, waits := n.Next()
		if !waits {
			t.Fatal("something waits and nothing is next")
		}
		since++
		if next == fromFront {
			continue
		}
		if next != agents {
			t.Fatalf("agent event %d came as number %d", next, agents)
		}
		if since > frontRunMax+1 {
			t.Fatalf("an agent has waited for %d others", since)
		}
		agents, since = agents+1, 0
	}
	if next, waits := n.Next(); waits || agents != laneMax {
		t.Errorf("%d agents came; left: %v", agents, next)
	}
}

// TestLanesTakeTurns (R34): the rest of what a sender of much has sent waits for senders of little, however many came
// before them.
func TestLanesTakeTurns(t *testing.T) {
	n, ctx := NewLanes[int](), t.Context()
	var greedy []*Inlet[int]
	for range 3 {
		by := n.Front.Inlet(NewSender())
		greedy = append(greedy, by)
		for range inletMax {
			if !by.Put(ctx, nil, 1, 0) {
				t.Fatal("there is room")
			}
		}
	}
	honest := n.Front.Inlet(NewSender())
	honest.Put(ctx, nil, 7, 0)
	for i := range 2 * len(greedy) {
		if next, _ := n.Next(); next == 7 {
			if i != len(greedy) {
				t.Errorf("it came as number %d", i)
			}
			return
		}
	}
	t.Errorf("%d calls of others came first", 2*len(greedy))
}

// TestLanesAreBounded: by the places of each stream, several of which a large message takes, and by the bytes of all
// streams. A sender that gives up leaves no place taken.
func TestLanesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewLanes[int]()
		puts := func(by *Inlet[int], bytes int) (count int) {
			for {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				ok := by.Put(ctx, nil, 1, bytes)
				cancel()
				if !ok {
					return count
				}
				count++
			}
		}
		if small := puts(n.Front.Inlet(NewSender()), 10); small != inletMax {
			t.Errorf("%d small messages of one stream wait", small)
		}
		if large := puts(n.Front.Inlet(NewSender()), 1<<20); large != 1 {
			t.Errorf("%d large messages of one stream wait", large)
		}
		streams := 1
		for puts(n.Front.Inlet(NewSender()), 1<<20) == 1 {
			streams++
		}
		if streams != laneBytesMax>>20-1 {
			t.Errorf("the largest messages of %d streams wait", streams)
		}
		late, came := n.Front.Inlet(NewSender()), make(chan bool, 1)
		go func() {
			came <- late.Put(t.Context(), nil, 9, 1<<20)
		}()
		synctest.Wait()
		before, taken := n.Waiting(), 0
		for ; n.Waiting() > 0; taken++ {
			n.Next()
		}
		if !<-came { // while others were taken, or after them
			t.Error("who waited did not come")
		}
		for ; n.Waiting() > 0; taken++ {
			n.Next()
		}
		if taken != before+1 {
			t.Errorf("%d of %d messages came", taken, before+1)
		}
		if n.Front.room.left != laneBytesMax || len(n.Front.room.waiters.items) != 0 || late.room.left != inletMax {
			t.Errorf("nothing waits, and %d of %d bytes are free", n.Front.room.left, laneBytesMax)
		}
	})
}

// TestGate: only so many agents are on their way in. Each that comes back frees a place once, one that hangs loses its
// place soon, and one that has waited for too long is told so.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, over := make(Gate, 2), make(chan struct{})
		began := time.Now()
		enter := func() (func(), bool) { return g.Enter(context.Background(), over) }
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
		shut := make(Gate) // never a place
		began := time.Now()
		if _, ok := shut.Enter(context.Background(), nil); ok || time.Since(began) != returningWaitMax {
			t.Errorf("entered %v after %v", ok, time.Since(began))
		}
		over := make(chan struct{})
		close(over)
		if _, ok := shut.Enter(context.Background(), over); ok {
			t.Error("entered a leadership that is over")
		}
	})
}

// TestRedirectsArePaced: the first agent is sent on at once, ten thousand within five seconds, and none waits for
// longer than it may.
func TestRedirectsArePaced(t *testing.T) {
	p, now := NewPace(), time.Unix(1000, 0)
	for i := range redirectsPerSecond {
		wait, ok := p.Turn(now, time.Second)
		if want := time.Duration(i) * time.Second / redirectsPerSecond; !ok || wait != want {
			t.Fatalf("number %d waits for %v (%v), not %v", i, wait, ok, want)
		}
	}
	p.Turn(now, time.Second) // the last of this second
	if wait, ok := p.Turn(now, time.Second); ok {
		t.Errorf("one more than a second holds waits for %v", wait)
	}
	if wait, ok := p.Turn(now.Add(time.Hour), time.Second); !ok || wait != 0 {
		t.Errorf("an hour later: %v after %v", ok, wait)
	}
}
