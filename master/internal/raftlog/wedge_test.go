package raftlog

import (
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/internal/registrycodec"
	"github.com/tenderhq/tender/master/quorum"
	"github.com/tenderhq/tender/master/registry"
)

// TestTransferOncePerTerm: P3. A second transfer within one term can wedge the
// library; ours is refused, whatever came of the first.
func TestTransferOncePerTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 3)
		defer q.stopAll()
		id, lead := q.leader("")
		slow := q.nodes[other(q, id)]
		q.mesh.isolate(slow.config.Advertise, true)
		if _, err := commit(lead, admit("a", 1)); err != nil {
			t.Fatal(err)
		}
		var first, second error
		resigned, done := true, make(chan struct{})
		q.nodes[id].loop.requests <- func(r *life) { // between two looks, so in one term
			defer close(done)
			first, second = q.nodes[id].reign.transfer(r, slow.ID()), q.nodes[id].reign.transfer(r, slow.ID())
			resigned = q.nodes[id].reign.resign(r)
		}
		<-done
		if !api.Is(first, api.Unavailable) {
			t.Errorf("a transfer to who is away: %v", first)
		}
		if second == nil || !strings.Contains(second.Error(), "tried in this term already") || resigned {
			t.Errorf("a second transfer in the term was tried: %v, %v", second, resigned)
		}
		q.mesh.isolate(slow.config.Advertise, false)
		_, again := q.leader("")
		if again.Term.Compare(lead.Term) <= 0 {
			t.Errorf("term %v after %v", again.Term, lead.Term)
		}
		if _, err := commit(again, admit("b", 1)); err != nil {
			t.Error(err)
		}
	})
}

// other is a master that is not id.
func other(q *cluster, id api.MasterID) api.MasterID {
	for _, peer := range q.peers {
		if peer.ID != id {
			return peer.ID
		}
	}
	return ""
}

// wedge is a future that fails for ever as hashicorp/raft#696 does.
type wedge struct{}

func (wedge) Error() error { return raft.ErrLeadershipTransferInProgress }

// TestWedgedLeaderStops: the watchdog of P3. The library is made to refuse writes for
// ever; the process must end with a sentence, within five election timeouts or so.
func TestWedgedLeaderStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &cluster{t: t, mesh: newMesh(), nodes: map[api.MasterID]*node{}, peers: []Peer{{ID: "m1", Addr: "host1:5070"}}}
		q.open = func(l *Log) { l.reign.barrier = func(*life) raft.Future { return wedge{} } }
		q.start(q.peers[0], NewMemory())
		began := time.Now()
		err := <-q.nodes["m1"].ended
		if !api.Is(err, api.Internal) || !strings.Contains(err.Error(), "hashicorp/raft#696") {
			t.Errorf("ended with %v", err)
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("it took %v", took)
		}
	})
}

// TestUnreadableEntryStopsThisMaster: P9. The others go on.
func TestUnreadableEntryStopsThisMaster(t *testing.T) {
	stopped := make(chan error, 1)
	m := newMachine(func(err error) { stopped <- err })
	m.Apply(&raft.Log{Index: 1, Term: 1, Data: entryOf(t, []registry.Command{admit("a", 1)})})
	hash := registrycodec.Hash(m.show())
	m.Apply(&raft.Log{Index: 2, Term: 1, Data: []byte("no entry")})
	m.Apply(&raft.Log{Index: 3, Term: 1, Data: entryOf(t, []registry.Command{admit("a", 2)})})
	select {
	case err := <-stopped:
		if !strings.Contains(err.Error(), "entry 2") {
			t.Errorf("stopped with %v", err)
		}
	default:
		t.Error("nobody was told to stop")
	}
	if registrycodec.Hash(m.show()) != hash {
		t.Error("it went on behind an entry that it could not read")
	}
	if _, err := m.Snapshot(); err == nil {
		t.Error("it made a snapshot of a registry with a hole")
	}
}

// TestWrongClusterIsRefused: R19, on both sides of a connection.
func TestWrongClusterIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuorum(t, 1)
		defer q.stopAll()
		q.leader("")
		m1 := q.nodes["m1"]
		stranger := newNetwork(Config{Dial: q.mesh.dialer("elsewhere")}, func() quorum.About { return quorum.About{ID: "m9", Cluster: "cluster-other"} }, func(api.MasterID) {})
		if _, _, err := stranger.greet(m1.config.Advertise, "raft", time.Second); err == nil || !strings.Contains(err.Error(), "wrong cluster") {
			t.Errorf("a master of another cluster: %v", err)
		}
		conn, err := q.mesh.dialer("elsewhere")(m1.config.Advertise, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err == nil {
			if n, err := conn.Read(make([]byte, 1)); err == nil {
				t.Errorf("%d bytes were answered to who is no master", n)
			}
		}
		if err := conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}
