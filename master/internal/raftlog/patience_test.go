package raftlog

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/master/quorum"
)

// TestPatientElections: terms that do not last make a follower wait longer, and one that
// lasts makes it as it was.
func TestPatientElections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 3)
		defer q.stopAll()
		id, _ := q.leader("")
		leader, follower := q.nodes[id].Log, q.nodes["m1"].Log
		if id == "m1" {
			follower = q.nodes["m2"].Log
		}
		r := follower.engine.running()
		usual := r.ReloadableConfig().ElectionTimeout
		p := quorum.Patience{Term: r.CurrentTerm(), Since: time.Now(), Short: quorum.ShortTermsFree + 2}
		follower.engine.beAsPatient(r, &p)
		if now := r.ReloadableConfig(); now.ElectionTimeout != 4*usual || now.HeartbeatTimeout != 4*usual {
			t.Errorf("after terms that did not last: %+v", now)
		}
		leader.engine.beAsPatient(leader.engine.running(), &quorum.Patience{Short: quorum.ShortTermsFree + 2})
		if now := leader.engine.running().ReloadableConfig().ElectionTimeout; now != usual {
			t.Errorf("a leader has %v", now)
		}
		<-time.After(quorum.TermLasts + time.Second)
		follower.engine.beAsPatient(r, &p)
		if now := r.ReloadableConfig().ElectionTimeout; now != usual {
			t.Errorf("after a term that lasted: %v", now)
		}
	})
}
