package intake

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/peer"
)

// Listener closes connections beyond its limit at once.
type Listener struct {
	net.Listener
	limit   int64
	open    atomic.Int64
	refused *atomic.Uint64
	peers   *Peers
}

// NewListener makes a listener with a limit. It counts the connections beyond the limit in refused; peers keeps the
// accounts of the others.
func NewListener(inner net.Listener, limit int64, refused *atomic.Uint64, peers *Peers) *Listener {
	return &Listener{Listener: inner, limit: limit, refused: refused, peers: peers}
}

// Accept returns the next connection for which there is room.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= l.limit {
			return l.bounded(conn), nil
		}
		l.open.Add(-1)
		l.refused.Add(1)
		_ = conn.Close() // nothing was read from it
	}
}

// bounded returns a connection with its account. The connection is closed when it has been silent for longest of too
// many silent ones of its address.
func (l *Listener) bounded(conn net.Conn) net.Conn {
	sender := l.peers.connected(conn.RemoteAddr())
	one := &boundedConn{Conn: conn, listener: l, remote: remote{conn.RemoteAddr(), sender}}
	sender.end = func() { _ = one.Close() } // whoever reads from it gets an error
	sender.begin(func() {
		l.refused.Add(1)
		_ = one.Close() // whoever reads from it gets an error
	})
	return one
}

type boundedConn struct {
	net.Conn
	listener *Listener
	once     sync.Once
	remote   remote
}

// remote is the address of the other end of a connection, with its sender.
type remote struct {
	net.Addr
	sender *Sender
}

// RemoteAddr returns the address with the sender. gRPC gives it to each stream.
func (c *boundedConn) RemoteAddr() net.Addr { return c.remote }

// senderKey is the key under which the context of an HTTP request holds its sender.
type senderKey struct{}

// WithSender stores the sender of an HTTP connection for the connection's requests.
func WithSender(ctx context.Context, conn net.Conn) context.Context {
	if remote, ours := conn.RemoteAddr().(remote); ours {
		return context.WithValue(ctx, senderKey{}, remote.sender)
	}
	return ctx
}

// SenderOf returns the sender of the connection on which a call came.
func SenderOf(ctx context.Context) *Sender {
	if s, http := ctx.Value(senderKey{}).(*Sender); http {
		s.calls()
		return s
	}
	if from, known := peer.FromContext(ctx); known {
		if remote, ours := from.Addr.(remote); ours {
			remote.sender.calls()
			return remote.sender
		}
	}
	return NewSender()
}

// Close closes the connection and gives its place back, once.
func (c *boundedConn) Close() error {
	c.once.Do(func() {
		c.listener.open.Add(-1)
		c.remote.sender.calls() // it no longer counts as silent
		c.listener.peers.left(c.remote.sender)
	})
	return c.Conn.Close()
}
