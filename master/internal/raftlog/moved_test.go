package raftlog

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/quorum"
)

// move starts masters again at other addresses, all of them after all have stopped.
func (q *cluster) move(to map[api.MasterID]string) {
	folders := map[api.MasterID]*Memory{}
	for id := range to {
		folders[id] = q.stop(id)
	}
	for id, addr := range to {
		q.start(Peer{ID: id, Addr: addr}, folders[id])
	}
}

// known awaits that every master's membership has these addresses.
func (q *cluster) known(to map[api.MasterID]string) {
	q.t.Helper()
	for range 6000 {
		right := true
		for _, n := range q.nodes {
			members := n.Members.Status().Members
			right = right && n.Members.Status().Leader != "" && len(members) == len(q.peers)
			for _, m := range members {
				right = right && (to[m.ID] == "" || to[m.ID] == m.Addr) && m.Role != "non-voter"
			}
		}
		if right {
			return
		}
		advance(10 * time.Millisecond)
	}
	for id, n := range q.nodes {
		q.t.Errorf("%s knows %v", id, n.Members.Status())
	}
	q.t.FailNow()
}

// TestMastersMove: a master that comes up at another address tells the quorum itself, be
// it a follower, the leader, or most of them at once; if all of them, --peers has to say
// where the others are.
func TestMastersMove(t *testing.T) {
	for name, test := range map[string]struct {
		to    func(leader, one, two api.MasterID) map[api.MasterID]string
		peers bool
	}{
		"follower": {to: func(_, one, _ api.MasterID) map[api.MasterID]string {
			return map[api.MasterID]string{one: "host7:5070"}
		}},
		"leader": {to: func(l, _, _ api.MasterID) map[api.MasterID]string { return map[api.MasterID]string{l: "host7:5070"} }},
		"followers": {to: func(_, one, two api.MasterID) map[api.MasterID]string {
			return map[api.MasterID]string{one: "host7:5070", two: "host8:5070"}
		}},
		"leader and follower": {to: func(l, one, _ api.MasterID) map[api.MasterID]string {
			return map[api.MasterID]string{l: "host7:5070", one: "host8:5070"}
		}},
		"all": {peers: true, to: func(l, one, two api.MasterID) map[api.MasterID]string {
			return map[api.MasterID]string{l: "host7:5070", one: "host8:5070", two: "host9:5070"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQuorum(t, 3)
				leader, lead := q.leader("")
				if _, err := commit(lead, admit("a", 1)); err != nil {
					t.Fatal(err)
				}
				var others []api.MasterID
				for _, peer := range q.peers {
					if peer.ID != leader {
						others = append(others, peer.ID)
					}
				}
				to := test.to(leader, others[0], others[1])
				if test.peers {
					q.build = func(c *Config) {
						c.Peers = nil
						for id, addr := range to {
							c.Peers = append(c.Peers, Peer{ID: id, Addr: addr})
						}
					}
				}
				q.move(to)
				q.known(to)
				q.calm()
				q.move(map[api.MasterID]string{others[0]: "host" + string(others[0])[1:] + ":5070"}) // and back
				q.known(map[api.MasterID]string{others[0]: "host" + string(others[0])[1:] + ":5070"})
				q.agree()
				q.stopAll()
			})
		})
	}
}

// calm awaits that all agree, and makes sure that for a minute nothing is written and
// nobody is elected.
func (q *cluster) calm() {
	q.t.Helper()
	q.agree()
	advance(2 * askOthersEvery)
	before := q.nodes["m1"].Members.Status()
	advance(time.Minute)
	if after := q.nodes["m1"].Members.Status(); after.Last != before.Last || after.Term != before.Term || after.Leader == "" {
		q.t.Errorf("within a quiet minute the quorum went from %+v to %+v", before, after)
	}
}

// TestExchangedAddresses: two masters that come up at each other's address are found, and
// never taken for each other. The library's membership can't have one address twice, so it
// keeps the old ones; a third move puts it right.
func TestExchangedAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 3)
		q.leader("")
		q.move(map[api.MasterID]string{"m2": "host3:5070", "m3": "host2:5070"})
		for range 3 {
			_, lead := q.leader("")
			if _, err := commit(lead, admit("a", 1)); err != nil {
				t.Fatal(err)
			}
			q.calm()
			leader := q.nodes["m1"].Members.Status().Leader
			q.move(map[api.MasterID]string{leader: q.nodes[leader].config.Advertise}) // as any restart
		}
		q.move(map[api.MasterID]string{"m2": "host7:5070"})
		q.known(map[api.MasterID]string{"m1": "host1:5070", "m2": "host7:5070", "m3": "host2:5070"})
		q.calm()
		q.stopAll()
	})
}

// TestAStolenAddressIsNoSecondVote: a master that was started at the address of one that
// is down meets itself there, and must not count its own vote as the other's.
func TestAStolenAddressIsNoSecondVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 3)
		q.leader("")
		memory := map[api.MasterID]*Memory{"m2": q.stop("m2"), "m3": q.stop("m3")}
		q.move(map[api.MasterID]string{"m1": "host2:5070"})
		for range 600 {
			advance(50 * time.Millisecond)
			if status := q.nodes["m1"].Members.Status(); status.State == "leader" {
				t.Fatalf("one of three masters leads: %+v", status)
			}
		}
		q.start(Peer{ID: "m3", Addr: "host3:5070"}, memory["m3"])
		q.leader("")
		q.start(Peer{ID: "m2", Addr: "host8:5070"}, memory["m2"])
		q.known(map[api.MasterID]string{"m1": "host2:5070", "m2": "host8:5070"})
		q.calm()
		q.stopAll()
	})
}

// pretend answers at an address as a master that is not one of the quorum's, and asks the
// quorum's as such.
func (q *cluster) pretend(addr string, says, answers quorum.About) {
	q.t.Helper()
	n := newNetwork(Config{Dial: q.mesh.dialer(addr), Listener: q.mesh.listen(addr), Advertise: addr},
		func() quorum.About { return answers }, func(api.MasterID) {})
	before := map[api.MasterID]string{}
	for _, peer := range q.peers {
		before[peer.ID] = peer.Addr
	}
	n.start()
	for range 3 {
		for _, node := range q.nodes {
			conn, err := n.config.Dial(node.config.Advertise, time.Second)
			if err != nil {
				q.t.Fatal(err)
			}
			if err := writeGreeting(conn, greeting{For: "ask", Cluster: says.Cluster, From: says.ID, Addr: addr}); err != nil {
				q.t.Error(err)
			}
			var answer quorum.About
			if err := readGreeting(conn, &answer); err != nil {
				q.t.Error(err)
			}
			_ = conn.Close()
		}
		advance(2 * askOthersEvery)
	}
	for id, node := range q.nodes {
		for _, peer := range q.peers {
			if now := node.network.moves.where(peer); now != peer.Addr {
				q.t.Errorf("%s dials %s at %s", id, peer.ID, now)
			}
		}
	}
	q.known(before)
	n.close()
}

// TestNoMove: a peer that says that it is a master of the quorum is believed only if it answers as that master at the
// address that it names, and nobody does at the master's old address.
func TestNoMove(t *testing.T) {
	for name, test := range map[string]func(cluster api.ClusterID) (says, answers quorum.About, down api.MasterID){
		"copied folder": func(c api.ClusterID) (says, answers quorum.About, down api.MasterID) {
			return quorum.About{ID: "m3", Cluster: c}, quorum.About{ID: "m3", Cluster: c}, ""
		},
		"wrong cluster": func(api.ClusterID) (says, answers quorum.About, down api.MasterID) {
			return quorum.About{ID: "m3", Cluster: "other"}, quorum.About{ID: "m3", Cluster: "other"}, "m3"
		},
		"wrong cluster that says ours": func(c api.ClusterID) (says, answers quorum.About, down api.MasterID) {
			return quorum.About{ID: "m3", Cluster: c}, quorum.About{ID: "m3", Cluster: "other"}, "m3"
		},
		"another master listens there": func(c api.ClusterID) (says, answers quorum.About, down api.MasterID) {
			return quorum.About{ID: "m3", Cluster: c}, quorum.About{ID: "m9", Cluster: c}, "m3"
		},
		"no member": func(c api.ClusterID) (says, answers quorum.About, down api.MasterID) {
			return quorum.About{ID: "m9", Cluster: c}, quorum.About{ID: "m9", Cluster: c}, ""
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQuorum(t, 3)
				q.leader("")
				says, answers, down := test(q.nodes["m1"].Cluster())
				if down != "" {
					q.stop(down)
				}
				q.pretend("host9:5070", says, answers)
				q.stopAll()
			})
		})
	}
}
