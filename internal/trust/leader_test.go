package trust_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/tenderhq/tender/internal/testing/memnet"
	"github.com/tenderhq/tender/internal/trust"
)

// countedBytes is a connection that counts the bytes it receives.
type countedBytes struct {
	net.Conn
	in *atomic.Int64
}

func (c countedBytes) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	c.in.Add(int64(n))
	return n, err
}

// TestWhoDoesNotLeadRefusesAtTheFirstWord: a client that wants the leader only is refused by a follower before anything
// is proved, and then resumes the same session with the leader. A client without this condition is admitted.
func TestWhoDoesNotLeadRefusesAtTheFirstWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		a1 := c.holder(trust.Agent, "a1")
		follower := c.holder(trust.Master, "m1").Server(trust.Door{Tickets: c.key, Leads: func(context.Context) bool { return false }})
		leader := c.holder(trust.Master, "m2").Server(trust.Door{Tickets: c.key, Leads: func(context.Context) bool { return true }})
		older := c.holder(trust.Master, "m3").Server(trust.Door{Tickets: c.key}) // it does not know this condition
		refused, in := 0, new(atomic.Int64)
		wanted := func(dial trust.Dial) trust.Dial {
			counted := func(ctx context.Context, address string) (net.Conn, error) {
				conn, err := dial(ctx, address)
				return countedBytes{conn, in}, err
			}
			return a1.LeaderDialer(counted, func() { refused++ })
		}
		if got := meet(t, follower, wanted); got.served == nil || got.dialed == nil || refused != 1 {
			t.Errorf("who does not lead says %v, and the agent %v after %d refusals", got.served, got.dialed, refused)
		}
		const alert = 7 // the head of a record, and two bytes
		if in.Load() != alert {
			t.Errorf("a refusal is %d bytes, want an alert of %d", in.Load(), alert)
		}
		if got := meet(t, follower, dialer(a1, trust.Master)); got.dialed != nil {
			t.Errorf("who asks without the condition is refused: %v", got.dialed)
		}
		if got := meet(t, follower, wanted); got.dialed == nil || refused != 2 {
			t.Errorf("who does not lead lets in who has a session: %v after %d refusals", got.dialed, refused)
		}
		for name, server := range map[string]struct{ got met }{"the leader": {meet(t, leader, wanted)}, "one that knows no condition": {meet(t, older, wanted)}} {
			if got := server.got; got.dialed != nil || !got.resumed || refused != 2 {
				t.Errorf("%s: %+v after %d refusals; want a session taken up", name, got, refused)
			}
		}
	})
}

// TestAHangingUpIsNoRefusal: a master that closes the connection has not said whether it leads, and has said nothing of
// the session that the client wants to resume.
func TestAHangingUpIsNoRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, n := newCluster(t), memnet.New()
		a1, leader := c.holder(trust.Agent, "a1"), c.holder(trust.Master, "m1").Server(trust.Door{Tickets: c.key})
		meet(t, leader, dialer(a1, trust.Master))
		listener, err := n.Listen("there:1")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if conn, err := listener.Accept(); err == nil {
				_ = conn.Close()
			}
		}()
		refused := false
		if _, err := a1.LeaderDialer(n.From("here").Dial, func() { refused = true })(t.Context(), "there:1"); err == nil || refused {
			t.Errorf("it fails with %v; refused: %v", err, refused)
		}
		if got := meet(t, leader, dialer(a1, trust.Master)); !got.resumed {
			t.Errorf("the session is not taken up any more: %+v", got)
		}
		if got := meet(t, leader, dialer(a1, trust.Framework)); got.dialed == nil {
			t.Errorf("a master is taken for a framework: %+v", got)
		}
		if got := meet(t, leader, dialer(a1, trust.Master)); got.resumed || got.dialed != nil {
			t.Errorf("a session is taken up with somebody who was refused: %+v", got)
		}
	})
}
