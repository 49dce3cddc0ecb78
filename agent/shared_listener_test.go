package agent

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
)

// flakyListener returns what the test sends it: connections or errors.
type flakyListener struct {
	next   chan any
	closed chan struct{}
}

func newFlakyListener() *flakyListener {
	return &flakyListener{next: make(chan any), closed: make(chan struct{})}
}

func (l *flakyListener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	case next := <-l.next:
		if err, failed := next.(error); failed {
			return nil, err
		}
		return next.(net.Conn), nil
	}
}

func (l *flakyListener) Close() error   { close(l.closed); return nil }
func (l *flakyListener) Addr() net.Addr { return &net.UnixAddr{Name: "flaky"} }

// A moment without file descriptors must not close the agent's address for ever: later connections are served.
func TestAcceptGoesOnAfterAMomentWithoutDescriptors(t *testing.T) {
	inner := newFlakyListener()
	shared := newSharedListener(inner, 10)
	turn := shared.during(t.Context())
	for range 3 {
		inner.next <- error(&net.OpError{Op: "accept", Err: syscall.EMFILE})
	}
	ours, theirs := net.Pipe()
	defer theirs.Close()
	go func() { inner.next <- ours }()
	connection, err := turn.Accept()
	if err != nil {
		t.Fatalf("the connection after the failures: %v", err)
	}
	connection.Close()
	if failed := shared.failed.Load(); failed != 3 {
		t.Errorf("%d failures were counted, want 3", failed)
	}
	if err := shared.close(); err != nil {
		t.Error(err)
	}
	if _, err := turn.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after close: %v, want net.ErrClosed", err)
	}
}

// Beyond the limit a connection is closed at once. A place that becomes free is used again.
func TestConnectionsBeyondTheLimitAreRefused(t *testing.T) {
	inner := newFlakyListener()
	shared := newSharedListener(inner, 1)
	defer shared.close()
	turn := shared.during(t.Context())
	connect := func() net.Conn {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { theirs.Close() })
		inner.next <- ours
		return theirs
	}
	connect()
	first, err := turn.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connect().Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the second of one allowed connection reads %v, want EOF", err)
	}
	first.Close()
	first.Close() // a second close must not give the place back twice
	connect()
	if _, err := turn.Accept(); err != nil {
		t.Errorf("after the first was closed: %v", err)
	}
	if open, refused := shared.open.Load(), shared.refused.Load(); open != 1 || refused != 1 {
		t.Errorf("%d open and %d refused, want 1 and 1", open, refused)
	}
}

// When the listener is closed while a connection waits for a server, that connection is closed and close does not hang.
func TestCloseTurnsAwayWhoWaits(t *testing.T) {
	inner := newFlakyListener()
	shared := newSharedListener(inner, 10)
	ours, theirs := net.Pipe()
	inner.next <- ours // it was accepted, but no server takes it
	if err := shared.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := theirs.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("who waited reads %v, want EOF", err)
	}
}
