package trust

import (
	"context"
	"crypto/tls"
	"net"
)

// Listener admits the peers that the door admits. A handshake begins with the first read, so a silent stranger does not
// hold up Accept.
func (h *Holder) Listener(inner net.Listener, door Door) net.Listener {
	if h == nil {
		return inner
	}
	return listener{inner, h.Server(door), door.Plain}
}

type listener struct {
	net.Listener
	config *tls.Config
	plain  bool
}

func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if l.plain {
		return &either{Conn: conn, config: l.config}, nil
	}
	return newSecured(tls.Server(conn, l.config)), nil
}

// secured is a connection that hides its TLS from servers. HTTP servers then use HTTP/1 or HTTP/2 on it as they do on
// plain text, by what the client begins with. Only dialers and listeners know of the TLS.
type secured struct {
	net.Conn // the same as tls
	tls      *tls.Conn
}

func newSecured(conn *tls.Conn) secured { return secured{conn, conn} }

// connKey is the key under which a context keeps the connection of an HTTP request.
type connKey struct{}

// WithConn keeps the connection for [FromConn].
func WithConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// FromConn returns the context with the identity of the peer on the connection that WithConn has kept.
func FromConn(ctx context.Context) context.Context {
	conn, _ := ctx.Value(connKey{}).(net.Conn)
	if conn == nil {
		return ctx
	}
	return With(ctx, PeerOf(conn))
}
