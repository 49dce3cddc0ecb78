package raftlog

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/api"
)

// opening is a leadership, and the master that has it.
type opening struct {
	id   api.MasterID
	lead *Leadership
}

// openings collects every leadership that any master delivers, also those that are over.
func (q *cluster) openings() <-chan opening {
	all := make(chan opening, 1000)
	for _, id := range slices.Sorted(maps.Keys(q.nodes)) {
		leaderships := q.nodes[id].Leaderships()
		go func() { // ends with the master
			for lead := range leaderships {
				all <- opening{id, lead}
			}
		}()
	}
	return all
}

// TestFiftyChangesInARow: P11. Leadership is handed over, cut off and given up in turn;
// every time the gate opens for the next, and for no term twice.
func TestFiftyChangesInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 3)
		defer q.stopAll()
		openings, terms := q.openings(), map[api.Term]api.MasterID{}
		next := func(after api.Term) opening {
			t.Helper()
			for {
				select {
				case o := <-openings:
					if before, twice := terms[o.lead.Term]; twice {
						t.Fatalf("term %v was opened on %s and on %s", o.lead.Term, before, o.id)
					}
					terms[o.lead.Term] = o.id
					if !o.lead.ended() && o.lead.Term.Compare(after) > 0 {
						return o
					}
				case <-time.After(time.Minute):
					t.Fatalf("nobody leads after %v", after)
				}
			}
		}
		leads := next(api.Term{})
		for change := range 50 {
			if _, err := commit(leads.lead, admit("a", uint64(change+1))); err != nil {
				t.Fatalf("change %d: %v", change, err)
			}
			was, cut := leads, change%3 == 1
			addr := q.nodes[was.id].config.Advertise
			switch change % 3 {
			case 0:
				if err := q.nodes[was.id].Members.Transfer(context.Background(), ""); err != nil {
					t.Fatalf("change %d: %v", change, err)
				}
			case 1:
				q.mesh.isolate(addr, true)
			case 2:
				was.lead.End("broken invariant")
			}
			leads = next(was.lead.Term)
			if cut && leads.id == was.id {
				t.Fatalf("change %d: %s leads, which reaches nobody", change, was.id)
			}
			select {
			case <-was.lead.Done():
			case <-time.After(time.Minute):
				t.Fatalf("change %d: term %v does not end", change, was.lead.Term)
			}
			q.mesh.isolate(addr, false)
		}
		q.agree()
		if n := len(q.nodes[leads.id].Registry().Agents); n != 50 {
			t.Errorf("%d of 50 changes are in the registry", n)
		}
	})
}

// TestRegainedUnseen: P11. A master loses leadership and gets it back between two looks:
// both times it leads, but not in the same term.
func TestRegainedUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 3)
		defer q.stopAll()
		id, lead := q.leader("")
		first, blind := q.nodes[id], make(chan struct{})
		see := sync.OnceFunc(func() { close(blind) })
		defer see() // whatever fails: it could not end
		first.loop.requests <- func(*life) { <-blind }
		q.mesh.isolate(first.config.Advertise, true)
		second, _ := q.leader(id)
		q.mesh.isolate(first.config.Advertise, false)
		q.agree()
		if err := q.nodes[second].Members.Transfer(context.Background(), id); err != nil {
			t.Fatal(err)
		}
		for first.Members.Status().State != "leader" {
			advance(10 * time.Millisecond)
		}
		see()
		again, next := q.leader("")
		if again != id || next.Term.Compare(lead.Term) <= 0 {
			t.Errorf("%s leads in %v after %s in %v", again, next.Term, id, lead.Term)
		}
		if !lead.ended() {
			t.Error("the leadership of the older term goes on")
		}
		if _, err := commit(next, admit("a", 1)); err != nil {
			t.Error(err)
		}
	})
}

// TestGateStaysShutWithoutAMajority: P2. A master that is cut off after its Barrier has a complete registry, and Raft
// still says that it leads; but nobody follows it.
func TestGateStaysShutWithoutAMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var armed atomic.Bool
		cutOff := make(chan api.MasterID, 1)
		q := &cluster{t: t, mesh: newMesh(), nodes: map[api.MasterID]*node{}}
		q.open = func(l *Log) {
			barrier := l.reign.barrier
			l.reign.barrier = func(r *life) raft.Future {
				future := barrier(r)
				if future.Error() == nil && armed.CompareAndSwap(true, false) {
					q.mesh.isolate(l.config.Advertise, true)
					synctest.Wait() // the library counts for a check also what was answered before it was asked
					cutOff <- l.ID()
				}
				return future
			}
		}
		for i := range 3 {
			q.peers = append(q.peers, Peer{ID: api.MasterID(fmt.Sprint("m", i+1)), Addr: fmt.Sprint("host", i+1, ":5070")})
		}
		for _, peer := range q.peers {
			q.start(peer, NewMemory())
		}
		defer q.stopAll()
		id, lead := q.leader("")
		openings := q.openings()
		armed.Store(true) // the registry is settled: nothing has to be written before the next gate opens
		// The error says nothing: the master that leads next may be cut off before it answers that it was asked to.
		_ = q.nodes[id].Members.Transfer(context.Background(), "")
		<-lead.Done()
		lonely := <-cutOff
		advance(time.Minute)
		led := false
		for len(openings) > 0 {
			o := <-openings
			led = true
			if o.id == lonely {
				t.Errorf("%s leads in %v, and nobody follows", lonely, o.lead.Term)
			}
		}
		if !led {
			t.Error("nobody leads")
		}
	})
}

// TestWhoIsBehindRemovesNobody: P6. A master that was added while another one was away asks only that one, whose
// membership does not list it yet.
func TestWhoIsBehindRemovesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 3)
		defer q.stopAll()
		id, _ := q.leader("")
		behind := q.nodes[other(q, id)]
		cutFromOthers := func(addr string) {
			for _, peer := range q.peers {
				if peer.ID != behind.ID() && peer.Addr != addr {
					q.mesh.cutLink(addr, peer.Addr)
				}
			}
		}
		cutFromOthers(behind.config.Advertise)
		peer := Peer{ID: "m4", Addr: "host4:5070"}
		added := q.start(peer, NewMemory())
		if err := q.nodes[id].Members.Add(context.Background(), peer); err != nil {
			t.Fatal(err)
		}
		if behind.Members.Status().Last >= added.Members.Status().Last {
			t.Fatalf("%s has all that m4 has", behind.ID())
		}
		cutFromOthers(peer.Addr)
		advance(time.Minute)
		if status := added.Members.Status(); status.Leader != "" {
			t.Fatalf("m4 follows %s and asks nobody", status.Leader)
		}
		select {
		case err := <-added.ended:
			delete(q.nodes, "m4")
			t.Errorf("m4 took the word of who is behind: %v", err)
		default:
		}
	})
}
