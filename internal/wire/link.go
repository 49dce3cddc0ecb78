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

// Windows of HTTP/2 flow control, the same at both ends of every session. That they are said at all keeps
// gRPC from measuring the bandwidth with pings of its own beside the messages: a tenth of what a heartbeat cost.
const (
	// StreamWindowBytes is how much one side may send on a stream before the other has read it. It holds
	// the largest message.
	StreamWindowBytes = 1 << 20
	// ConnWindowBytes is the same for all streams of a connection together.
	ConnWindowBytes = 4 << 20
)
