package raftlog

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/api"
)

// unheard is a master whose requests for votes can be kept from everybody.
type unheard struct {
	*carrier
	unheard *atomic.Pointer[api.MasterID] // the master whose requests are not heard
	self    api.MasterID
}

func (u unheard) RequestVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	if who := u.unheard.Load(); who != nil && *who == u.self {
		return errors.New("nobody hears it")
	}
	return u.carrier.RequestVote(id, to, args, resp)
}

// TestACandidateIsHandedNothing: P3. The library keeps a candidate by transfer, which nobody heard, a candidate even
// when another master leads in the candidate's term. It takes entries from that leader but not the leadership, and does
// not say so. So leadership is not handed to it before it follows. If any other voter will do, that one gets it at
// once.
func TestACandidateIsHandedNothing(t *testing.T) {
	t.Run("any other", func(t *testing.T) { handOverBesideACandidate(t, func(_, _ api.MasterID) api.MasterID { return "" }) })
	t.Run("the other", func(t *testing.T) {
		handOverBesideACandidate(t, func(first, _ api.MasterID) api.MasterID { return first })
	})
	t.Run("the candidate", func(t *testing.T) {
		handOverBesideACandidate(t, func(_, lonely api.MasterID) api.MasterID { return lonely })
	})
}

// handOverBesideACandidate hands the leadership over to one of two masters: the first to lead and the candidate.
func handOverBesideACandidate(t *testing.T, to func(first, lonely api.MasterID) api.MasterID) {
	synctest.Test(t, func(t *testing.T) {
		var who atomic.Pointer[api.MasterID]
		var links sync.Map // of unheard by master
		q := newQuorum(t, 0)
		q.open = func(l *Log) {
			l.carry = func(c *carrier) raft.Transport {
				link := unheard{c, &who, l.ID()}
				links.Store(l.ID(), link)
				return link
			}
		}
		q.peers = []Peer{{ID: "m1", Addr: "host1:5070"}, {ID: "m2", Addr: "host2:5070"}, {ID: "m3", Addr: "host3:5070"}}
		for _, peer := range q.peers {
			q.start(peer, NewMemory())
		}
		defer q.stopAll()
		id, lead := q.leader("")
		lonely := other(q, id)
		third := q.peers[slices.IndexFunc(q.peers, func(p Peer) bool { return p.ID != id && p.ID != lonely })].ID
		who.Store(&lonely)
		if err := q.nodes[id].Members.Transfer(context.Background(), lonely); err != nil {
			t.Fatal(err)
		}
		log := q.nodes[third].Log
		link, _ := links.Load(third)
		(&successor{config: log.config, self: log.self, raft: log.engine.running(), transport: link.(unheard)}).stand()
		next, again := q.leader("")
		if next != third || again.Term.Number != lead.Term.Number+1 || q.nodes[lonely].Members.Status().State != "candidate" {
			t.Fatalf("%s leads in %v after %v, %s is a %s", next, again.Term, lead.Term, lonely, q.nodes[lonely].Members.Status().State)
		}
		who.Store(nil)
		began := time.Now()
		if err := log.Members.Transfer(context.Background(), to(id, lonely)); err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		if last, final := q.leader(next); last != to(id, lonely) && to(id, lonely) != "" || final.Term.Number != again.Term.Number+1 {
			t.Errorf("%s leads in %v", last, final.Term)
		}
		if waited := took > 100*time.Millisecond; waited != (to(id, lonely) == lonely) || took > 2*time.Second { // of virtual time
			t.Errorf("it took %v", took)
		}
	})
}

// TestWhoIsAwayIsHandedNothing: a transfer to a master that is away, or to any master while all are away, changes
// nothing. The leader continues to lead in its term, and says which masters do not answer.
func TestWhoIsAwayIsHandedNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 3)
		defer q.stopAll()
		id, lead := q.leader("")
		away := other(q, id)
		q.mesh.isolate(q.nodes[away].config.Advertise, true)
		err := q.nodes[id].Members.Transfer(context.Background(), away)
		if !api.Is(err, api.Unavailable) || !strings.Contains(err.Error(), string(away)+" does not answer at ") {
			t.Errorf("handed to who is away: %v", err)
		}
		for n := range uint64(3) {
			if _, err := commit(lead, admit("a", n+1)); err != nil {
				t.Fatalf("%s does not lead on: %v", id, err)
			}
			advance(time.Second)
		}
		if err := q.nodes[id].Members.Transfer(context.Background(), ""); err != nil { // not to the first that comes
			t.Fatal(err)
		}
		if next, again := q.leader(id); next == away || again.Term.Number != lead.Term.Number+1 {
			t.Errorf("%s leads in %v after %v", next, again.Term, lead.Term)
		}
	})
}

// TestALeaderThatStopsHandsOverToWhoIsThere: even when the library would pick a master that is away.
func TestALeaderThatStopsHandsOverToWhoIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 5)
		defer q.stopAll()
		id, lead := q.leader("")
		away := other(q, id) // the first of the others, and as far as the last: the library's choice
		q.mesh.isolate(q.nodes[away].config.Advertise, true)
		began := time.Now()
		q.stop(id)
		if next, again := q.leader(""); next == away || again.Term.Number != lead.Term.Number+1 {
			t.Errorf("%s leads in %v after %v", next, again.Term, lead.Term)
		}
		if took := time.Since(began); took > 100*time.Millisecond { // of virtual time
			t.Errorf("it took %v", took)
		}
	})
}

// TestWhoLeadsOrStandsIsNotMadeACandidate: a leader's election is not begun anew by a copy of a message, or by that of a
// leader of the past, and a candidate says that it stands already.
func TestWhoLeadsOrStandsIsNotMadeACandidate(t *testing.T) {
	for state, refused := range map[raft.RaftState]string{raft.Leader: "", raft.Candidate: "it stands for election already"} {
		gate := newTermGate(func() uint64 { return 7 }, func(raft.ServerID, uint64) bool { return false }, func() raft.RaftState { return state })
		answers := make(chan raft.RPCResponse, 1)
		if gate.takes(raft.RPC{RespChan: answers, Command: &raft.TimeoutNowRequest{}}) {
			t.Errorf("a %v is to stand for election", state)
			continue
		}
		if answer := <-answers; (answer.Error == nil) != (refused == "") || refused != "" && answer.Error.Error() != refused {
			t.Errorf("a %v answers %v", state, answer.Error)
		}
	}
}
