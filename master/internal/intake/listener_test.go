package intake

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/tenderhq/tender/internal/testing/memnet"
)

// TestConnectionsAreBounded (R34): one connection more than allowed is closed at once. A connection that ends makes
// room, once.
func TestConnectionsAreBounded(t *testing.T) {
	var refused atomic.Uint64
	dial, accepted := listen(t, 2, &refused, NewPeers(nil))
	dial()
	first := <-accepted
	dial()
	<-accepted
	if _, err := dial().Read(make([]byte, 1)); err == nil || refused.Load() != 1 {
		t.Errorf("the third is not closed: %v, %d refused", err, refused.Load())
	}
	_ = first.Close()
	_ = first.Close()
	dial()
	<-accepted
	if _, err := dial().Read(make([]byte, 1)); err == nil || refused.Load() != 2 {
		t.Errorf("a place was given back twice: %v, %d refused", err, refused.Load())
	}
}

// listen has a listener accept until the test ends. A dial returns the far end; the near one, if it is not refused, is accepted.
func listen(t *testing.T, most int64, refused *atomic.Uint64, peers *Peers) (dial func() net.Conn, accepted <-chan net.Conn) {
	t.Helper()
	network := memnet.New()
	inner, err := network.Listen("host:1")
	if err != nil {
		t.Fatal(err)
	}
	listener := NewListener(inner, most, refused, peers)
	t.Cleanup(func() { _ = listener.Close() })
	near := make(chan net.Conn)
	go func() {
		for {
			conn, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			near <- conn
		}
	}()
	return func() net.Conn {
		conn, err := network.Dial(t.Context(), "host:1")
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}, near
}
