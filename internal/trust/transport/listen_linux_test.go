package transport_test

import (
	"net"
	"testing"

	"github.com/tenderhq/tender/internal/trust/transport"
)

// TestWhoSaysNothingIsNotLetIn (R34): a connection on which nothing was sent stays with the kernel and keeps nobody
// out. It is accepted after some seconds, so the test is tried again if it was stopped for that long.
func TestWhoSaysNothingIsNotLetIn(t *testing.T) {
	for range 3 {
		if speakerIsFirst(t) {
			return
		}
	}
	t.Error("who connected first and said nothing was let in first")
}

func speakerIsFirst(t *testing.T) bool {
	listener, err := transport.ListenTCP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	dial()
	speaks := dial()
	if _, err := speaks.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	first, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	return first.RemoteAddr().String() == speaks.LocalAddr().String()
}
