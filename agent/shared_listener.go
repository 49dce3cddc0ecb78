package agent

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// How long a shared listener rests after a failed accept, doubling while it goes on failing: the usual cause is that
// the process is out of file descriptors, which ends when others close theirs.
const (
	acceptPauseMin = 5 * time.Millisecond
	acceptPauseMax = time.Second
)

// A sharedListener keeps one address open through all lives of an agent: servers come and go, the address stays.
// No failure of accept ends it, only close does. Of more connections than its limit the newest is closed at once, so
// that strangers who open many can't take the descriptors that the agent's other doors need.
type sharedListener struct {
	net.Listener
	limit    int64
	open     atomic.Int64 // connections that were accepted and not closed
	refused  atomic.Uint64
	failed   atomic.Uint64 // times that accept failed
	accepted chan net.Conn
	closing  chan struct{} // closed by close
	ended    chan struct{} // closed when nothing is accepted any more
	once     sync.Once
}

// newSharedListener takes the listener over and accepts up to limit connections at a time.
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

// rest waits, and tells whether the listener is still wanted then.
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

// close ends the listener and turns away who waits to be accepted.
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

// during is the listener for one server: it ends with the context.
func (l *sharedListener) during(ctx context.Context) net.Listener {
	ctx, cancel := context.WithCancel(ctx)
	return &listenerTurn{l, ctx, cancel}
}

// A listenerTurn is a shared listener in the hands of one server.
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

// A countedConn gives its place back when it is closed.
type countedConn struct {
	net.Conn
	listener *sharedListener
	once     sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.listener.open.Add(-1) })
	return c.Conn.Close()
}
