package raftlog

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/quorum"
)

// TestSilentStrangersKeepNoMasterOut (R34): however many open connections to the Raft port and
// say nothing, masters reach each other, and an election succeeds.
func TestSilentStrangersKeepNoMasterOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 3)
		defer q.stopAll()
		id, lead := q.leader("")
		for _, peer := range q.peers {
			dial := q.mesh.dialer("stranger")
			for range 2 * greetingsMax {
				conn, err := dial(peer.Addr, time.Second)
				if err != nil {
					t.Fatalf("%s takes no connection: %v", peer.ID, err)
				}
				defer conn.Close()
			}
		}
		began := time.Now()
		for _, peer := range q.peers {
			for _, node := range q.nodes {
				if answer, err := node.network.ask(peer.Addr, time.Second); err != nil || answer.ID != peer.ID {
					t.Errorf("%s is not reached: %v", peer.ID, err)
				}
			}
		}
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("nine questions took %v", took)
		}
		if err := q.nodes[id].Members.Transfer(context.Background(), ""); err != nil {
			t.Error(err)
		}
		next, _ := q.leader(id)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s leads %v after %v was handed over", next, took, lead.Term)
		}
		for _, node := range q.nodes {
			node.network.mu.Lock()
			if n := len(node.network.silent); n > greetingsMax {
				t.Errorf("%d connections are silent, at most %d may be", n, greetingsMax)
			}
			node.network.mu.Unlock()
		}
	})
}

// TestAMasterThatStopsWaitsForNoGreeting: a peer that connects to our Raft just when Raft has ended does not delay our
// end.
func TestAMasterThatStopsWaitsForNoGreeting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mesh := newMesh()
		about := func() quorum.About { return quorum.About{ID: "m1", Cluster: "c1"} }
		n := newNetwork(Config{Listener: mesh.listen("host1:5070"), Dial: mesh.dialer("host1:5070")}, about, func(api.MasterID) {})
		n.start()
		n.stream() // a stream from which nobody accepts any more
		other := newNetwork(Config{Dial: mesh.dialer("host2:5070")}, about, func(api.MasterID) {})
		if _, err := other.join(Peer{ID: "m1", Addr: "host1:5070"}, "", time.Second); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		n.close()
		if took := time.Since(began); took > 0 { // of virtual time
			t.Errorf("its end took %v", took)
		}
	})
}
