package raftlog

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/registry/registrytest"
)

// TestAMasterThatDiffersStops: a flipped bit in the registry of one master, the leader or a follower, is noticed at the
// next entry at which hashes are taken. That master stops and says what to do, and the others continue.
func TestAMasterThatDiffersStops(t *testing.T) {
	for _, who := range []string{"a follower", "the leader"} {
		t.Run(who, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := &cluster{t: t, mesh: newMesh(), nodes: map[api.MasterID]*node{}}
				q.open = func(l *Log) { l.machine.marks.every = 16 }
				for _, id := range []api.MasterID{"m1", "m2", "m3"} {
					q.peers = append(q.peers, Peer{ID: id, Addr: "host" + string(id) + ":5070"})
				}
				for _, peer := range q.peers {
					q.start(peer, NewMemory())
				}
				leader, lead := q.leader("")
				commitSome(t, lead, 1)
				if !q.agreed(1) {
					t.Fatal("the masters do not agree on a hash")
				}
				broken := leader
				for id := range q.nodes {
					if who == "a follower" && id != leader {
						broken = id
					}
				}
				m := q.nodes[broken].machine
				m.mu.Lock()
				m.state.NextAgent ^= 1 << 20
				agreed := m.marks.logged.Index
				m.mu.Unlock()
				commitSome(t, lead, 2)
				err := <-q.nodes[broken].ended
				if !api.Is(err, api.Internal) || !strings.Contains(err.Error(), "not what the majority's is") || !strings.Contains(err.Error(), "raft remove") {
					t.Errorf("it ended with %v", err)
				}
				delete(q.nodes, broken)
				if broken == leader {
					_, lead = q.leader(broken)
					commitSome(t, lead, 3)
				}
				if !q.agreed(agreed + 1) {
					t.Error("the others do not agree any more")
				}
				q.stopAll()
			})
		})
	}
}

// commitSome commits more entries than lie between two hashes.
func commitSome(t *testing.T, lead *Leadership, from uint64) {
	t.Helper()
	for i := range uint64(20) {
		if _, err := commit(lead, admit("a", 100*from+i)); err != nil {
			t.Fatal(err)
		}
	}
}

// agreed awaits that all masters know of a hash that was agreed on at an index from here on.
func (q *cluster) agreed(index uint64) bool {
	for range 1000 {
		all := true
		for _, n := range q.nodes {
			_, logged := n.machine.mark()
			all = all && logged >= index
		}
		if all {
			return true
		}
		advance(100 * time.Millisecond)
	}
	return false
}

// TestAnUpgradeStopsNobody: R24. Masters of two versions take the hash of their registries by the
// format that all of them know, the older one's, and so agree; once all know the newer one they
// go over to its hash at one entry of the log, and agree again.
func TestAnUpgradeStopsNobody(t *testing.T) {
	defer registrytest.Knowing(2)()
	synctest.Test(t, func(t *testing.T) {
		formats := map[api.MasterID]uint64{"m1": 1, "m2": 1, "m3": 1}
		versions := map[api.MasterID]string{"m1": "v0.4.0", "m2": "v0.4.0", "m3": "v0.4.0"}
		q := &cluster{t: t, mesh: newMesh(), nodes: map[api.MasterID]*node{}}
		q.open = func(l *Log) { l.machine.marks.every = 16 }
		q.build = func(c *Config) { c.Format, c.Version = formats[c.ID], versions[c.ID] }
		for _, id := range []api.MasterID{"m1", "m2", "m3"} {
			q.peers = append(q.peers, Peer{ID: id, Addr: "host" + string(id) + ":5070"})
		}
		for _, peer := range q.peers {
			q.start(peer, NewMemory())
		}
		agreed, lead := uint64(0), (*Leadership)(nil)
		agree := func(when string) {
			if lead == nil || lead.ended() {
				_, lead = q.leader("")
			}
			commitSome(t, lead, agreed+1)
			if !q.agreed(agreed + 1) {
				t.Fatalf("the masters do not agree on a hash %s", when)
			}
			_, agreed = q.nodes["m1"].machine.mark()
		}
		if !q.knowing(1) {
			t.Fatal("the old format is not used")
		}
		agree("before the upgrade")
		for _, id := range []api.MasterID{"m1", "m2", "m3"} {
			formats[id], versions[id] = 2, "v0.5.0"
			q.start(peerOf(q, id), q.stop(id))
			agree("after " + string(id) + " was upgraded")
		}
		if !q.knowing(2) {
			t.Fatal("all masters know the new format, and it is not used")
		}
		agree("after the upgrade")
		for id, n := range q.nodes {
			select {
			case err := <-n.ended:
				t.Errorf("%s ended with %v", id, err)
			default:
			}
		}
		q.stopAll()
	})
}
