package raftlog

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// swallowers are connections that can die silently: from then on whatever is sent over them is lost, in both
// directions, and nobody is told. Connections that are dialed later are not affected.
type swallowers struct {
	mu    sync.Mutex
	conns []*swallower
}

func (s *swallowers) dialer(dial func(string, time.Duration) (net.Conn, error)) func(string, time.Duration) (net.Conn, error) {
	return func(addr string, timeout time.Duration) (net.Conn, error) {
		conn, err := dial(addr, timeout)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		one := &swallower{Conn: conn}
		s.conns = append(s.conns, one)
		return one, nil
	}
}

// die ends all that there are.
func (s *swallowers) die() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.conns {
		conn.dead.Store(true)
	}
	s.conns = nil
}

type swallower struct {
	net.Conn
	dead atomic.Bool
}

func (s *swallower) Write(p []byte) (int, error) {
	if s.dead.Load() {
		return len(p), nil
	}
	return s.Conn.Write(p)
}

func (s *swallower) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	for err == nil && s.dead.Load() {
		n, err = s.Conn.Read(p)
	}
	return n, err
}

// swallowing starts a quorum whose connections can die.
func swallowing(t *testing.T) (*cluster, *swallowers) {
	t.Helper()
	all := &swallowers{}
	return builtQuorum(t, 3, func(c *Config) { c.Dial = all.dialer(c.Dial) }), all
}

// TestSilentConnectionsEndNoLeadership (P19): each connection that a leader has to its followers dies without a word. Heartbeats
// find others in time, and so does what is committed.
func TestSilentConnectionsEndNoLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, conns := swallowing(t)
		defer q.stopAll()
		_, lead := q.leader("")
		q.agree()
		for range 3 {
			advance(3 * time.Second)
			conns.die()
			began := time.Now()
			if _, err := commit(lead, admit("a", 1)); err != nil {
				t.Errorf("a commit: %v", err)
			}
			if took := time.Since(began); took > timings[ProfileLAN].election {
				t.Errorf("a commit took %v", took)
			}
			advance(20 * time.Second) // what hangs over them for as long as exchanges may
			if lead.ended() {
				t.Fatal("the leadership has ended")
			}
		}
	})
}

// TestSilentConnectionsLoseNoVote (P19): a former leader has connections that are kept for later, and they have died
// silently. Leadership is handed to it, and it gets its votes in the first election.
func TestSilentConnectionsLoseNoVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, conns := swallowing(t)
		defer q.stopAll()
		once, _ := q.leader("")
		leads := other(q, once)
		if err := q.nodes[once].Members.Transfer(context.Background(), leads); err != nil {
			t.Fatal(err)
		}
		_, lead := q.leader(once)
		advance(5 * time.Second)
		conns.die()
		began := time.Now()
		if err := q.nodes[leads].Members.Transfer(context.Background(), once); err != nil {
			t.Fatal(err)
		}
		if _, again := q.leader(leads); again.Term.Number != lead.Term.Number+1 {
			t.Errorf("term %v follows %v", again.Term, lead.Term)
		}
		if took := time.Since(began); took > 2*timings[ProfileLAN].election { // of virtual time
			t.Errorf("it took %v", took)
		}
	})
}

// TestWhoStillWritesHasTheRequest (P19): the library reuses a request as soon as it is answered, while the exchange
// over the silent connection may still be writing it.
func TestWhoStillWritesHasTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &carrier{stream: &stream{dialed: map[*dialed]struct{}{}}, patience: func() time.Duration { return time.Second }}
		request, silence, written := raft.RequestVoteRequest{Term: 1}, make(chan struct{}), uint64(0)
		exchange := func(_ raft.ServerID, to raft.ServerAddress, request *raft.RequestVoteRequest, answer *raft.RequestVoteResponse) error {
			if strings.HasPrefix(string(to), string(anew)) {
				answer.Granted = true
				return nil
			}
			<-silence
			written = request.Term
			return nil
		}
		var answer raft.RequestVoteResponse
		if err := secondTry(c, "b", "b:1", 0, &request, &answer, exchange); err != nil || !answer.Granted {
			t.Fatalf("%v, %v", answer, err)
		}
		request.Term = 2
		close(silence)
		synctest.Wait()
		if written != 1 {
			t.Errorf("what was said in term 1 is written with term %d", written)
		}
	})
}
