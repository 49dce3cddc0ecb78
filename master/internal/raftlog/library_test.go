package raftlog

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/api"
)

// slowLink holds AppendEntries with entries to one follower behind a gate, and does
// not pipeline.
type slowLink struct {
	*carrier
	mu   sync.Mutex
	to   raft.ServerID
	gate chan struct{}
}

func (s *slowLink) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

func (s *slowLink) AppendEntries(id raft.ServerID, addr raft.ServerAddress, request *raft.AppendEntriesRequest, answer *raft.AppendEntriesResponse) error {
	s.mu.Lock()
	held, gate := s.to == id, s.gate
	s.mu.Unlock()
	if held && len(request.Entries) > 0 {
		<-gate
		return errors.New("the slow link broke")
	}
	return s.carrier.AppendEntries(id, addr, request, answer)
}

func (s *slowLink) slow(to raft.ServerID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to, s.gate = to, make(chan struct{})
}

func (s *slowLink) heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.to != "" {
		s.to = ""
		close(s.gate)
	}
}

// TestLibraryWedges is hashicorp/raft#696 as it happens: two transfers to a slow
// follower within a term, the leader cut off, then elected again. The library refuses
// every write then, in some of the runs. Whoever leads in the end either can write or
// has ended with that sentence, for its supervisor to start it again.
func TestLibraryWedges(t *testing.T) {
	wedged := 0
	for run := range 12 {
		t.Run(fmt.Sprint(run), func(t *testing.T) {
			stuck := false
			defer func() {
				if p := recover(); p != nil && !stuck { // what is wedged never ends: a process has to
					panic(p)
				}
			}()
			synctest.Test(t, func(t *testing.T) {
				if stuck = wedges(t); stuck {
					wedged++
				}
			})
		})
	}
	t.Logf("the library was wedged in %d of 12 runs", wedged)
}

func wedges(t *testing.T) bool {
	var links sync.Map // of *slowLink by master, the last life's
	q := &cluster{t: t, mesh: newMesh(), nodes: map[api.MasterID]*node{}}
	q.open = func(l *Log) {
		l.carry = func(n *carrier) raft.Transport {
			link := &slowLink{carrier: n}
			links.Store(l.ID(), link)
			return link
		}
	}
	for i := range 3 {
		q.peers = append(q.peers, Peer{ID: api.MasterID(fmt.Sprint("m", i+1)), Addr: fmt.Sprint("host", i+1, ":5070")})
	}
	for _, peer := range q.peers {
		q.start(peer, NewMemory())
	}
	id, lead := q.leader("")
	node, slow := q.nodes[id], other(q, id)
	advance(time.Second)
	found, _ := links.Load(id)
	link := found.(*slowLink)
	link.slow(q.nodes[slow].self.server())
	if _, err := commit(lead, admit("a", 1)); err != nil {
		t.Fatal(err)
	}
	library := node.engine.running()
	for range 2 { // past our own guard, which allows one
		if err := library.LeadershipTransferToServer(q.nodes[slow].self.server(), raft.ServerAddress(q.nodes[slow].config.Advertise)).Error(); err == nil {
			t.Error("a transfer over the slow link succeeded")
		}
		advance(50 * time.Millisecond)
	}
	q.mesh.isolate(node.config.Advertise, true)
	advance(5 * time.Second)
	link.heal()
	q.mesh.isolate(node.config.Advertise, false)
	advance(5 * time.Second)

	// Leadership goes back to where it was.
	for range 20 {
		next, lead := q.leader("")
		if next == id {
			if _, err := commit(lead, admit("b", 1)); err != nil {
				t.Errorf("it leads and can't write: %v", err)
			}
			break
		}
		if err := q.nodes[next].Members.Transfer(t.Context(), id); err != nil {
			t.Log(err) // once more in the next term
		}
		advance(10 * time.Second)
		select {
		case err := <-node.ended:
			if !strings.Contains(err.Error(), "hashicorp/raft#696") {
				t.Errorf("%s ended with %v", id, err)
			}
			delete(q.nodes, id)
			_, lead := q.leader("")
			if _, err := commit(lead, admit("b", 1)); err != nil {
				t.Errorf("the others can't go on: %v", err)
			}
			q.stopAll()
			return true
		default:
		}
	}
	q.stopAll()
	return false
}
