package raftlog

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
)

// mesh is a network in memory whose links can be cut.
type mesh struct {
	mu        sync.Mutex
	listeners map[string]*meshListener
	cut       map[[2]string]bool
	conns     map[[2]string][]net.Conn
	crashed   map[string]bool // addresses from which nothing can be dialed
}

func newMesh() *mesh {
	return &mesh{listeners: map[string]*meshListener{}, cut: map[[2]string]bool{}, conns: map[[2]string][]net.Conn{}, crashed: map[string]bool{}}
}

func link(a, b string) [2]string {
	if a > b {
		a, b = b, a
	}
	return [2]string{a, b}
}

func (m *mesh) listen(addr string) net.Listener {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := &meshListener{addr: addr, conns: make(chan net.Conn), over: make(chan struct{})}
	m.listeners[addr] = l
	return l
}

func (m *mesh) dialer(from string) func(string, time.Duration) (net.Conn, error) {
	return func(to string, timeout time.Duration) (net.Conn, error) {
		m.mu.Lock()
		l, cut := m.listeners[to], m.cut[link(from, to)] || m.crashed[from]
		m.mu.Unlock()
		if l == nil || cut {
			return nil, errors.New("no route to " + to)
		}
		ours, theirs := net.Pipe()
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		select {
		case l.conns <- theirs:
		case <-l.over:
			return nil, fmt.Errorf("%s: %w", to, syscall.ECONNREFUSED)
		case <-timer.C:
			return nil, errors.New("timeout to " + to)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.cut[link(from, to)] || m.crashed[from] || m.crashed[to] { // while we dialed: a connection must not outlive the cut
			_ = ours.Close()
			_ = theirs.Close()
			return nil, errors.New("no route to " + to)
		}
		m.conns[link(from, to)] = append(m.conns[link(from, to)], ours, theirs)
		return ours, nil
	}
}

// isolate cuts or heals every link of one address.
func (m *mesh) isolate(addr string, cut bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for other := range m.listeners {
		m.cut[link(addr, other)] = cut
		if cut {
			for _, conn := range m.conns[link(addr, other)] {
				_ = conn.Close()
			}
			delete(m.conns, link(addr, other))
		}
	}
}

type meshListener struct {
	addr  string
	conns chan net.Conn
	over  chan struct{}
	once  sync.Once
}

func (l *meshListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

func (l *meshListener) Close() error   { l.once.Do(func() { close(l.over) }); return nil }
func (l *meshListener) Addr() net.Addr { return address(l.addr) }

func (m *mesh) cutLink(a, b string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cut[link(a, b)] = true
	for _, conn := range m.conns[link(a, b)] {
		_ = conn.Close()
	}
}

// crash closes a master's listener and all its connections, as the end of its process does. What continues to run there
// reaches nobody.
func (m *mesh) crash(addr string) {
	m.mu.Lock()
	l := m.listeners[addr]
	m.mu.Unlock()
	_ = l.Close() // never fails
	m.isolate(addr, true)
	m.mu.Lock()
	defer m.mu.Unlock()
	for other := range m.listeners { // to it: refused, not lost
		m.cut[link(addr, other)] = false
	}
	m.cut[link(addr, addr)] = true
	m.crashed[addr] = true
}
