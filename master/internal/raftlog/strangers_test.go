package raftlog

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/quorum"
)

// exile speaks as a master that has left the quorum, and lies.
type exile struct {
	*network
	to   *node
	over chan struct{}
}

func (r exile) Dial(raft.ServerAddress, time.Duration) (net.Conn, error) {
	return r.join(Peer{ID: r.to.ID(), Addr: r.to.config.Advertise}, r.to.folder.settings.Incarnation, time.Second)
}

func (r exile) Accept() (net.Conn, error) {
	<-r.over
	return nil, net.ErrClosed
}

func (r exile) Close() error {
	close(r.over)
	return nil
}

func (r exile) Addr() net.Addr { return address("host9:5070") }

// lie sends everything that could end a leadership, under the given name: each message names a later term, or asks its
// receiver to stand for election.
func (r exile) lie(as raft.RPCHeader, term uint64) {
	to := raft.NewNetworkTransport(r, 1, time.Second, io.Discard)
	defer to.Close()
	_ = to.AppendEntries("", "", &raft.AppendEntriesRequest{RPCHeader: as, Term: term}, &raft.AppendEntriesResponse{}) // nothing is to come of any
	_ = to.RequestPreVote("", "", &raft.RequestPreVoteRequest{RPCHeader: as, Term: term, LastLogIndex: 1 << 30, LastLogTerm: term}, &raft.RequestPreVoteResponse{})
	_ = to.RequestVote("", "", &raft.RequestVoteRequest{RPCHeader: as, Term: term, LastLogIndex: 1 << 30, LastLogTerm: term, LeadershipTransfer: true}, &raft.RequestVoteResponse{})
	_ = to.InstallSnapshot("", "", &raft.InstallSnapshotRequest{RPCHeader: as, Term: term}, &raft.InstallSnapshotResponse{}, strings.NewReader(""))
	_ = to.TimeoutNow("", "", &raft.TimeoutNowRequest{RPCHeader: as}, &raft.TimeoutNowResponse{})
}

// TestARemovedMasterEndsNoLeadership: whatever it says to whomever, also under the name of a member, and over connections that it
// has had since it was one.
func TestARemovedMasterEndsNoLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 3)
		defer q.stopAll()
		id, lead := q.leader("")
		leader, gone := q.nodes[id], q.peers[2]
		if gone.ID == id {
			gone = q.peers[1]
		}
		incarnation := q.nodes[gone.ID].folder.settings.Incarnation
		outside := newNetwork(Config{Dial: q.mesh.dialer("host9:5070")}, func() quorum.About {
			return quorum.About{ID: gone.ID, Incarnation: incarnation, Cluster: leader.Cluster(), Epoch: lead.Term.Epoch}
		}, func(api.MasterID) {})
		before, err := exile{outside, leader, nil}.Dial("", time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := leader.Members.Remove(context.Background(), Removal{ID: gone.ID}); err != nil {
			t.Fatal(err)
		}
		if err := <-q.nodes[gone.ID].ended; !api.Is(err, api.Removed) {
			t.Errorf("the removed one ended with %v", err)
		}
		delete(q.nodes, gone.ID)
		advance(5 * time.Second)
		_ = before.SetDeadline(time.Now().Add(time.Second))
		_, _ = before.Write([]byte{0}) // a message begins so
		if _, err := before.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a connection of before is not closed: %v", err)
		}
		for _, node := range q.nodes {
			for _, name := range []raft.ServerID{serverID(gone.ID, incarnation), leader.self.server()} {
				as := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(name), Addr: []byte("host9:5070")}
				exile{outside, node, make(chan struct{})}.lie(as, lead.Term.Number+1)
			}
		}
		advance(5 * time.Second)
		if now := leader.engine.running(); lead.ended() || now.CurrentTerm() != lead.Term.Number {
			t.Errorf("the leadership of term %d has ended: %v, the term is %d", lead.Term.Number, lead.ended(), now.CurrentTerm())
		}
	})
}

// TestWhoIsNewIsHeard: a master that does not know of an addition listens to the new master once the leader that it
// knew is silent, and for as long as it follows the new one. So nobody is locked out, and a master that was away while
// the others changed comes back.
func TestWhoIsNewIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 3)
		defer q.stopAll()
		id, _ := q.leader("")
		behind := other(q, id)
		follower := q.nodes[behind].engine.running()
		advance(time.Second)
		for _, c := range []struct {
			who  raft.ServerID
			want bool
		}{
			{q.nodes[id].self.server(), true}, {q.nodes[behind].self.server(), true}, {q.nodes["m3"].self.server(), true}, {"m9/i", false},
			{serverID("m3", "another folder"), false},
		} {
			if follower.hears(c.who) != c.want {
				t.Errorf("while a leader is heard, %s is heard: %v", c.who, !c.want)
			}
		}
		if q.nodes[id].engine.running().hears("m9/i") {
			t.Error("a leader hears one outside the quorum")
		}
		q.mesh.isolate(q.nodes[behind].config.Advertise, true)
		added := Peer{ID: "m4", Addr: "host4:5070"}
		q.start(added, NewMemory())
		if err := q.nodes[id].Members.Add(context.Background(), added); err != nil {
			t.Fatal(err)
		}
		advance(2 * time.Second)
		if !follower.hears(q.nodes[added.ID].self.server()) {
			t.Error("without a leader the new one is not heard")
		}
		if err := q.nodes[id].Members.Transfer(context.Background(), added.ID); err != nil {
			t.Fatal(err)
		}
		if next, _ := q.leader(id); next != added.ID {
			t.Fatalf("%s leads", next)
		}
		first := q.nodes[id].self.server()
		// The one that is removed is the only living master that the other one knows.
		if _, err := q.nodes[added.ID].Members.Remove(context.Background(), Removal{ID: id}); err != nil {
			t.Fatal(err)
		}
		if err := <-q.nodes[id].ended; !api.Is(err, api.Removed) {
			t.Errorf("the removed one ended with %v", err)
		}
		delete(q.nodes, id)
		q.mesh.isolate(q.nodes[behind].config.Advertise, false)
		q.agree()
		if next := q.nodes[added.ID].self.server(); !follower.hears(next) || follower.hears(first) {
			t.Errorf("at last the new one is heard: %v, and the one that was removed: %v", follower.hears(next), follower.hears(first))
		}
	})
}
