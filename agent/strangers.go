package agent

import (
	"errors"
	"net"
	"sync/atomic"

	"github.com/tenderhq/tender/agent/walls/entry"
)

// strangersMax is how many streams of executors may be open that have not subscribed. If there is one more, the stream
// that has been silent for longest is ended, so that nobody who says nothing can keep executors out. An executor comes
// back.
const strangersMax = 256

// If executors run as other users than the agent, their socket is open to all users of the machine. So the agent asks
// the kernel who has connected. A connection of a user who is neither the agent's nor that of a living executor is
// closed before a byte is read. No executor can speak for an executor of another user, whatever token it has found.

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
		case errors.Is(err, errors.ErrUnsupported): // then only the token protects
			return connection, nil
		case err != nil || !l.welcome(uid):
			l.refused.Add(1)
			connection.Close() //nolint:errcheck // nobody has read from it
			continue
		}
		return &peerConn{connection, uid}, nil
	}
}

// peerConn is a connection whose user is known.
type peerConn struct {
	net.Conn
	uid int
}

// RemoteAddr returns the address together with the user, so that the handlers of calls know the user.
func (c *peerConn) RemoteAddr() net.Addr { return peerAddr{c.Conn.RemoteAddr(), c.uid} }

type peerAddr struct {
	net.Addr
	uid int
}
