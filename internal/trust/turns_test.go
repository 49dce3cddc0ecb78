package trust_test

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/internal/trust"
)

// TestWhoWantsTheLeaderWaitsForATurn: while as many handshakes are computed as may be at once, who wants the leader waits,
// for some seconds at most, and nobody else does. A turn is over when the server has computed its part, or has refused.
func TestWhoWantsTheLeaderWaitsForATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		a1 := c.holder(trust.Agent, "a1")
		server := c.holder(trust.Master, "m1").Server(trust.Door{Kinds: []trust.Kind{trust.Agent}, Tickets: c.key, Leads: func(context.Context) bool { return true }})
		turns := make(trust.Turns, 1)
		come := func(wrap func(trust.Dial) trust.Dial) <-chan error {
			near, far := pipe(t)
			over := make(chan error, 2)
			go func() {
				conn, err := turns.Handshake(far, server)
				if err == nil {
					_, err = conn.Write([]byte("!"))
				}
				over <- err
				_ = far.Close()
			}()
			go func() {
				conn, err := wrap(func(context.Context, string) (net.Conn, error) { return near, nil })(t.Context(), "there")
				if err == nil {
					_, _ = io.ReadAll(conn)
				}
				_ = near.Close()
			}()
			return over
		}
		leaderOnly := func(dial trust.Dial) trust.Dial { return a1.LeaderDialer(dial, func() {}) }
		turns <- struct{}{}
		waits, late := come(leaderOnly), time.Now()
		if err := <-come(dialer(a1, trust.Master)); err != nil {
			t.Errorf("who wants any master is refused: %v", err)
		}
		synctest.Wait()
		select {
		case err := <-waits:
			t.Errorf("who wants the leader has not waited for its turn: %v", err)
		default:
		}
		if err := <-waits; err == nil || time.Since(late) > 5*time.Second {
			t.Errorf("who has waited for long ends with %v after %v", err, time.Since(late))
		}
		waits = come(leaderOnly)
		synctest.Wait()
		<-turns
		if err := <-waits; err != nil {
			t.Errorf("who has its turn is refused: %v", err)
		}
		another := newCluster(t).holder(trust.Agent, "a2")
		if err := <-come(func(dial trust.Dial) trust.Dial { return another.LeaderDialer(dial, func() {}) }); err == nil {
			t.Error("an agent of another cluster is let in")
		}
		if len(turns) != 0 {
			t.Errorf("%d turns are not over", len(turns))
		}
	})
}
