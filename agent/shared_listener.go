package agent

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// How long a shared listener pauses after a failed accept. The pause doubles while accept keeps failing. The usual
// cause is that the process has no file descriptors left, which ends when others are closed.
const (
	acceptPauseMin = 5 * time.Millisecond
	acceptPauseMax = time.Second
)

// A sharedListener keeps one address open through all lives of an agent: servers come and go, the address stays. Only
// close ends it, no failure of accept does. Beyond its limit of connections the newest is closed at once, so that
// strangers who open many can't take the file descriptors that the agent's other listeners need.
type sharedListener struct {
	net.Listener
	limit    int64
	open     atomic.Int64 // connections that were accepted and are not closed
	refused  atomic.Uint64
	failed   atomic.Uint64 // how often accept has failed
	accepted chan net.Conn
	closing  chan struct{} // closed by close
	ended    chan struct{} // closed when accept has ended for good
	once     sync.Once
}

// newSharedListener takes over the listener and accepts up to limit connections at a time.
func newSharedListener(listener net.Listener, limit int) *sharedListener {
	l := &sharedListener{
		Listener: listener, limit: int64(limit),
		accepted: make(chan net.Conn), closing: make(chan struct{}), ended: make(chan struct{}),
	}
	go l.accept()
	return l
}

func (l *sharedListener) accept() {
	defer close(l.ended)
	pause := acceptPauseMin
	for {
		connection, err := l.Listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			l.failed.Add(1)
			if !l.rest(pause) {
				return
			}
			pause = min(2*pause, acceptPauseMax)
			continue
		}
		pause = acceptPauseMin
		if l.open.Add(1) > l.limit {
			l.open.Add(-1)
			l.refused.Add(1)
			connection.Close() //nolint:errcheck // nobody has read from it
			continue
		}
		select {
		case l.accepted <- &countedConn{Conn: connection, listener: l}:
		case <-l.closing:
			connection.Close() //nolint:errcheck // nobody has read from it
			return
		}
	}
}

// rest waits, and then says whether the listener is still open.
func (l *sharedListener) rest(pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.closing:
		return false
	}
}

// close ends the listener and closes connections that wait to be accepted.
func (l *sharedListener) close() error {
	if l == nil {
		return nil
	}
	var err error
	l.once.Do(func() {
		close(l.closing)
		if err = l.Listener.Close(); errors.Is(err, net.ErrClosed) {
			err = nil
		}
		<-l.ended
	})
	return err
}

// during returns the listener for one server; for that server it ends with the context.
func (l *sharedListener) during(ctx context.Context) net.Listener {
	ctx, cancel := context.WithCancel(ctx)
	return &listenerTurn{l, ctx, cancel}
}

// A listenerTurn is a shared listener as one server uses it.
type listenerTurn struct {
	shared *sharedListener
	ctx    context.Context //nolint:containedctx // a listener has no other way to be told
	cancel context.CancelFunc
}

func (t *listenerTurn) Accept() (net.Conn, error) {
	select {
	case connection := <-t.shared.accepted:
		return connection, nil
	case <-t.shared.ended:
		return nil, net.ErrClosed
	case <-t.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (t *listenerTurn) Addr() net.Addr { return t.shared.Addr() }

func (t *listenerTurn) Close() error {
	t.cancel()
	return nil
}

// A countedConn is counted by its listener until it is closed.
type countedConn struct {
	net.Conn
	listener *sharedListener
	once     sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.listener.open.Add(-1) })
	return c.Conn.Close()
}
