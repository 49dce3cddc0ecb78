package raftlog

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/master/quorum"
)

// TestDeadLeaderIsFollowedAtOnce: a leader whose machine refuses connections is not waited for. A leader that is only
// cut off is waited for, for the heartbeat timeout.
func TestDeadLeaderIsFollowedAtOnce(t *testing.T) {
	heartbeat := timings[ProfileLAN].heartbeat
	for _, test := range []struct {
		what   string
		do     func(*mesh, string)
		atOnce bool
	}{
		{"dead", (*mesh).crash, true},
		{"cut off", func(m *mesh, addr string) { m.isolate(addr, true) }, false},
	} {
		t.Run(test.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQuorum(t, 3)
				defer q.stopAll()
				id, lead := q.leader("")
				advance(time.Minute)
				began := time.Now()
				test.do(q.mesh, q.nodes[id].config.Advertise)
				_, next := q.leader(id)
				took := time.Since(began)
				if next.Term.Compare(lead.Term) <= 0 {
					t.Errorf("term %v follows %v", next.Term, lead.Term)
				}
				if atOnce := took < heartbeat; atOnce != test.atOnce {
					t.Errorf("followed after %v; the heartbeat timeout is %v", took, heartbeat)
				}
			})
		})
	}
}

// TestLongestLogFollows: of two followers the one that has what was committed last
// stands first, whatever its ID.
func TestLongestLogFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 3)
		defer q.stopAll()
		id, lead := q.leader("")
		advance(time.Minute)
		behind := q.nodes[other(q, id)] // the lower ID
		addr := q.nodes[id].config.Advertise
		q.mesh.cutLink(addr, behind.config.Advertise)
		for i := range 3 {
			if _, err := commit(lead, admit("a", uint64(i+1))); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		q.mesh.crash(addr)
		next, _ := q.leader(id)
		if took := time.Since(began); next == behind.ID() || took > quorum.RankPause {
			t.Errorf("%s follows after %v", next, took)
		}
	})
}

// TestClosedConnectionsAreNoDeath: a leader that only loses its connections continues to lead.
func TestClosedConnectionsAreNoDeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 3)
		defer q.stopAll()
		id, lead := q.leader("")
		addr := q.nodes[id].config.Advertise
		for range 20 {
			q.mesh.isolate(addr, true)
			q.mesh.isolate(addr, false)
			advance(time.Second)
		}
		if lead.ended() {
			t.Error("the leader was replaced: " + lead.Why())
		}
		if _, err := commit(lead, admit("a", 1)); err != nil {
			t.Error(err)
		}
	})
}
