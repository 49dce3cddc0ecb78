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

// NewListener counts in refused the connections beyond the limit; peers keep the accounts of the others.
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
		_ = conn.Close() // nobody has read from it
	}
}

// bounded is a connection with its account. It is closed when it has been silent for longest of too many of its address.
func (l *Listener) bounded(conn net.Conn) net.Conn {
	sender := l.peers.connected(conn.RemoteAddr())
	one := &boundedConn{Conn: conn, listener: l, remote: remote{conn.RemoteAddr(), sender}}
	sender.end = func() { _ = one.Close() } // whoever reads from it ends
	sender.begin(func() {
		l.refused.Add(1)
		_ = one.Close() // whoever reads from it ends
	})
	return one
}

type boundedConn struct {
	net.Conn
	listener *Listener
	once     sync.Once
	remote   remote
}

// remote is the other end of a connection, with its account.
type remote struct {
	net.Addr
	sender *Sender
}

// RemoteAddr is also what gRPC tells each stream.
func (c *boundedConn) RemoteAddr() net.Addr { return c.remote }

// senderKey is where the context of a request of HTTP has its sender.
type senderKey struct{}

// WithSender keeps the account of a connection of HTTP for its requests.
func WithSender(ctx context.Context, conn net.Conn) context.Context {
	if remote, ours := conn.RemoteAddr().(remote); ours {
		return context.WithValue(ctx, senderKey{}, remote.sender)
	}
	return ctx
}

// SenderOf is the account of the connection that a call came by.
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

// Close gives the place back, once.
func (c *boundedConn) Close() error {
	c.once.Do(func() {
		c.listener.open.Add(-1)
		c.remote.sender.calls() // no more
		c.listener.peers.left(c.remote.sender)
	})
	return c.Conn.Close()
}
