package raftlog

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// unaware is a connection as the kernel has them: what is written after the other side has closed it is lost, and only
// a reader is told.
type unaware struct{ net.Conn }

func (u unaware) Write(p []byte) (int, error) {
	n, err := u.Conn.Write(p)
	if errors.Is(err, io.ErrClosedPipe) {
		return len(p), nil
	}
	return n, err
}

func (u unaware) Read(p []byte) (int, error) {
	n, err := u.Conn.Read(p)
	if errors.Is(err, io.ErrClosedPipe) {
		return n, io.EOF
	}
	return n, err
}

// TestLostConnectionsLoseNoVote: P18. The library keeps connections for later, even those that have been closed
// meanwhile. A former leader that was cut off for a moment has only such connections to the others. Leadership is
// handed to it nevertheless, at once.
func TestLostConnectionsLoseNoVote(t *testing.T) {
	for told, dialed := range map[string]func(net.Conn) net.Conn{
		"told when it writes": func(conn net.Conn) net.Conn { return conn },
		"told when it reads":  func(conn net.Conn) net.Conn { return unaware{conn} },
	} {
		t.Run(told, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := builtQuorum(t, 3, func(c *Config) {
					dial := c.Dial
					c.Dial = func(addr string, timeout time.Duration) (net.Conn, error) {
						conn, err := dial(addr, timeout)
						if err != nil {
							return nil, err
						}
						return dialed(conn), nil
					}
				})
				defer q.stopAll()
				leadsAgainAfterACut(t, q)
			})
		})
	}
}

func leadsAgainAfterACut(t *testing.T, q *cluster) {
	once, _ := q.leader("")
	leads := other(q, once)
	if err := q.nodes[once].Members.Transfer(context.Background(), leads); err != nil {
		t.Fatal(err)
	}
	_, lead := q.leader(once)
	q.mesh.isolate(q.nodes[once].config.Advertise, true)
	q.mesh.isolate(q.nodes[once].config.Advertise, false)
	advance(500 * time.Millisecond) // the leader reaches it again
	if lead.ended() {
		t.Fatal("the leadership did not outlast a moment's cut")
	}
	began := time.Now()
	if err := q.nodes[leads].Members.Transfer(context.Background(), once); err != nil {
		t.Fatal(err)
	}
	if _, again := q.leader(leads); again.Term.Number != lead.Term.Number+1 {
		t.Errorf("term %v follows %v", again.Term, lead.Term)
	}
	if took := time.Since(began); took > 100*time.Millisecond { // of virtual time
		t.Errorf("it took %v", took)
	}
}
