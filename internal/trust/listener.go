package trust

import (
	"context"
	"crypto/tls"
	"net"
)

// Listener lets in whom the door lets in. A handshake begins when somebody reads: a silent stranger holds up no accept.
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

// secured is a connection whose TLS is nobody's business but the dialer's and the listener's: servers of HTTP speak
// HTTP/1 and HTTP/2 on it as on plain text, by what the client begins with. So it does not show that it is one of TLS.
type secured struct {
	net.Conn // the same as tls
	tls      *tls.Conn
}

func newSecured(conn *tls.Conn) secured { return secured{conn, conn} }

// connKey is where a context has the connection of a request of HTTP.
type connKey struct{}

// WithConn keeps the connection for [FromConn].
func WithConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// FromConn is the context with the identity of who sent a request on the connection that it keeps.
func FromConn(ctx context.Context) context.Context {
	conn, _ := ctx.Value(connKey{}).(net.Conn)
	if conn == nil {
		return ctx
	}
	return With(ctx, PeerOf(conn))
}
