package memnet

import (
	"net"
	"sync"
)

// backlogConnsMax is how many connections may wait to be accepted; further ones are refused.
const backlogConnsMax = 128

type listener struct {
	net     *Net
	address string
	arrived *sync.Cond // of net.mu
	waiting []*conn
	closed  bool
}

// Accept waits for the next connection.
func (l *listener) Accept() (net.Conn, error) {
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	for len(l.waiting) == 0 && !l.closed {
		l.arrived.Wait()
	}
	if l.closed {
		return nil, &net.OpError{Op: "accept", Net: "mem", Addr: addr(l.address), Err: net.ErrClosed}
	}
	c := l.waiting[0]
	l.waiting = l.waiting[1:]
	return c, nil
}

// Close ends Accept, refuses new connections and closes those that nobody accepted.
func (l *listener) Close() error {
	l.net.mu.Lock()
	if l.closed {
		l.net.mu.Unlock()
		return net.ErrClosed
	}
	left := l.close()
	l.net.mu.Unlock()
	for _, c := range left {
		_ = c.Close()
	}
	return nil
}

// close ends Accept, refuses new connections and returns those that nobody accepted. The caller holds l.net.mu.
func (l *listener) close() (left []*conn) {
	l.closed = true
	delete(l.net.listeners, l.address)
	left, l.waiting = l.waiting, nil
	l.arrived.Broadcast()
	return left
}

func (l *listener) Addr() net.Addr { return addr(l.address) }
