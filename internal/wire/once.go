package wire

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
)

// Dialer makes a connection to an address.
type Dialer = func(ctx context.Context, address string) (net.Conn, error)

var errLost = errors.New("the session's connection is lost")

// Once is a dialer of a session: it makes one connection. A stream that its server has left unread would else be
// opened anew on the next connection, by whoever reads or writes first, and the other one waits for that inside gRPC,
// where neither a deadline nor a virtual clock reaches it. A session whose connection is lost is over.
func Once(dial Dialer) Dialer {
	var made atomic.Bool
	return func(ctx context.Context, address string) (net.Conn, error) {
		if made.Load() {
			return nil, errLost
		}
		conn, err := dial(ctx, address)
		if err == nil {
			made.Store(true)
		}
		return conn, err
	}
}
