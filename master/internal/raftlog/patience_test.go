package raftlog

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestPatience(t *testing.T) {
	var p patience
	now := time.Unix(0, 0)
	for _, step := range []struct {
		after time.Duration
		term  uint64
		want  int
	}{
		{0, 7, 1},
		{time.Minute, 8, 1},               // a leader was killed
		{time.Second, 9, 1},               // and its follower
		{time.Second, 10, 1},              //
		{time.Second, 11, 2},              // three terms that did not last
		{time.Second, 12, 4},              //
		{time.Second, 20, 8},              // that's enough
		{time.Second, 20, 8},              //
		{2500 * time.Millisecond, 20, 1},  // one has lasted
		{time.Second, 21, 1},              // it ends, as any may
		{10 * time.Second, 29, 8},         // seven passed unseen: the eighth may last
		{3100 * time.Millisecond, 29, 1},  //
		{100 * time.Hour, 30, 1},          //
		{500 * time.Millisecond, 30, 1},   //
		{2900 * time.Millisecond, 31, 1},  //
		{2900 * time.Millisecond, 32, 1},  //
		{2900 * time.Millisecond, 34, 2},  //
		{29000 * time.Millisecond, 34, 1}, //
	} {
		now = now.Add(step.after)
		if got := p.look(step.term, now); got != step.want {
			t.Errorf("term %d, %v later: %d times as long; want %d", step.term, step.after, got, step.want)
		}
	}
}

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
		r := follower.running()
		usual := r.ReloadableConfig().ElectionTimeout
		p := patience{term: r.CurrentTerm(), since: time.Now(), short: shortTermsFree + 2}
		follower.beAsPatient(r, &p)
		if now := r.ReloadableConfig(); now.ElectionTimeout != 4*usual || now.HeartbeatTimeout != 4*usual {
			t.Errorf("after terms that did not last: %+v", now)
		}
		leader.beAsPatient(leader.running(), &patience{short: shortTermsFree + 2})
		if now := leader.running().ReloadableConfig().ElectionTimeout; now != usual {
			t.Errorf("a leader has %v", now)
		}
		<-time.After(termLasts + time.Second)
		follower.beAsPatient(r, &p)
		if now := r.ReloadableConfig().ElectionTimeout; now != usual {
			t.Errorf("after a term that lasted: %v", now)
		}
	})
}
