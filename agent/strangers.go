package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"google.golang.org/grpc/peer"

	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/api"
)

// strangersMax bounds the streams of executors that have not said whose they are. Of one more than that, the
// one that has been silent for longest is ended, so that nobody who says nothing keeps executors out; an
// executor comes back.
const strangersMax = 256

// The executors' socket is open to all users of the machine where executors run as others than the agent; so the agent
// asks the kernel who has connected. Whoever is neither the agent's user nor that of a living executor is turned away
// before a byte is read, and no executor speaks for one of another user, whatever token it has found.

// peerListener turns away connections of users who have no executor here.
type peerListener struct {
	net.Listener
	welcome func(uid int) bool
	refused atomic.Uint64
}

// Accept returns the next connection whose user is welcome.
func (l *peerListener) Accept() (net.Conn, error) {
	for {
		connection, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		uid, err := entry.PeerOf(connection)
		switch {
		case errors.Is(err, errors.ErrUnsupported): // then the token is all there is
			return connection, nil
		case err != nil || !l.welcome(uid):
			l.refused.Add(1)
			connection.Close() //nolint:errcheck // nobody has read from it
			continue
		}
		return &peerConn{connection, uid}, nil
	}
}

// peerConn is a connection of whom the user is known.
type peerConn struct {
	net.Conn
	uid int
}

// RemoteAddr carries the user to where calls are answered.
func (c *peerConn) RemoteAddr() net.Addr { return peerAddr{c.Conn.RemoteAddr(), c.uid} }

type peerAddr struct {
	net.Addr
	uid int
}

// checkPeer says why who is at the other end of a stream may not speak for an executor, or nil.
func (a *Agent) checkPeer(ctx context.Context, ref api.ExecutorRef) error {
	from, known := peer.FromContext(ctx)
	if !known {
		return nil
	}
	address, known := from.Addr.(peerAddr)
	if !known || address.uid == entry.Self().UID || a.runs.runsAs(ref, address.uid) {
		return nil
	}
	return api.E("executor.subscribe", api.Denied, ref.String(),
		fmt.Errorf("user %d has connected, and the executor runs as another; only the executor itself may speak for it", address.uid))
}

// welcomes tells whether a user has an executor here, or is the agent's own.
func (a *Agent) welcomes(uid int) bool {
	return uid == entry.Self().UID || a.runs.anyAs(uid)
}
