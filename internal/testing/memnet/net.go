package memnet

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Everybody stands for all other hosts in Cut, Heal and Break.
const Everybody = "*"

// Net is a network. All methods may be called from any goroutine.
type Net struct {
	mu        sync.Mutex
	changed   *sync.Cond // something was healed, or there is a new listener
	listeners map[string]*listener
	conns     map[*conn]bool // both ends of each connection
	cuts      map[[2]string]bool
	mutes     map[[2]string]bool   // pairs of hosts of which the first is not heard by the second
	delay     func() time.Duration // nil: none
	port      int                  // the last port that was given out
}

// New makes a network without listeners. For use in a synctest bubble it must be made there.
func New() *Net {
	n := &Net{
		listeners: make(map[string]*listener),
		conns:     make(map[*conn]bool),
		cuts:      make(map[[2]string]bool),
		mutes:     make(map[[2]string]bool),
		port:      40000,
	}
	n.changed = sync.NewCond(&n.mu)
	return n
}

// Listen takes the address, HOST:PORT; port 0 means any free one.
func (n *Net) Listen(address string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "mem", Addr: addr(address), Err: err}
	}
	if port == "0" {
		n.port++
		address = net.JoinHostPort(host, strconv.Itoa(n.port))
	}
	if n.listeners[address] != nil {
		return nil, &net.OpError{Op: "listen", Net: "mem", Addr: addr(address), Err: syscall.EADDRINUSE}
	}
	l := &listener{net: n, address: address}
	l.arrived = sync.NewCond(&n.mu)
	n.listeners[address] = l
	return l, nil
}

// Dial connects from a host without a name, which only Cut(host, Everybody) separates from a host.
func (n *Net) Dial(ctx context.Context, address string) (net.Conn, error) {
	return n.From("").Dial(ctx, address)
}

// Host is a place on the network from which one dials.
type Host struct {
	net  *Net
	name string
}

// From returns the host with that name. It need not listen anywhere.
func (n *Net) From(name string) Host { return Host{n, hostOf(name)} }

// Dial connects to a listener. If nobody listens, it is refused at once. A listener behind a Cut does not answer, so
// Dial waits for Heal or the end of ctx.
func (h Host) Dial(ctx context.Context, address string) (net.Conn, error) {
	c, err := h.net.dial(ctx, h.name, address)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "mem", Addr: addr(address), Err: err}
	}
	return c, nil
}

func (n *Net) dial(ctx context.Context, from, address string) (*conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer context.AfterFunc(ctx, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.changed.Broadcast()
	})()
	to := hostOf(address)
	for ctx.Err() == nil && (n.silent(from, to) || n.silent(to, from)) {
		n.changed.Wait()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l := n.listeners[address]
	if l == nil {
		return nil, syscall.ECONNREFUSED
	}
	if len(l.waiting) >= backlogConnsMax {
		return nil, fmt.Errorf("%d connections wait to be accepted: %w", backlogConnsMax, syscall.ECONNREFUSED)
	}
	n.port++
	near, far := n.pair(net.JoinHostPort(from, strconv.Itoa(n.port)), address)
	l.waiting = append(l.waiting, far)
	l.arrived.Signal()
	return near, nil
}

// Cut makes two hosts unable to reach each other: what is sent waits, dials wait, and nothing fails by itself. A
// repeated Cut changes nothing.
func (n *Net) Cut(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts[pairOf(a, b)] = true
	n.update()
}

// Heal undoes the Cut of the same two; what waited arrives.
func (n *Net) Heal(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.cuts, pairOf(a, b))
	n.update()
}

// Mute cuts one direction: what from sends to the other host waits, while it still receives what that host sends. No
// new connection can be made between them.
func (n *Net) Mute(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mutes[[2]string{hostOf(from), hostOf(to)}] = true
	n.update()
}

// Unmute undoes the Mute of the same direction.
func (n *Net) Unmute(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.mutes, [2]string{hostOf(from), hostOf(to)})
	n.update()
}

// Delay makes every write on later connections take as long as delay returns. Each write has its own delay, and a
// connection keeps its order. delay must not use the network.
func (n *Net) Delay(delay func() time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delay = delay
}

// HealAll undoes every Cut and Mute.
func (n *Net) HealAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cuts)
	clear(n.mutes)
	n.update()
}

// update tells every connection and every dialer what is cut now.
func (n *Net) update() {
	for c := range n.conns { // order: irrelevant because each is told the same
		c.in.setCut(n.silent(hostOf(c.remote), hostOf(c.local)))
	}
	n.changed.Broadcast()
}

// Break resets the connections between two hosts: both ends fail at once, even when
// they are cut. New ones can be made.
func (n *Net) Break(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reset(a, b)
}

// Crash ends a host for all others at one moment: it is cut off from everybody, its listeners close, and its
// connections are reset, including those within the host. A dial that follows the failure of a connection at once is
// refused too. Heal(host, Everybody) ends only the cut.
func (n *Net) Crash(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts[pairOf(host, Everybody)] = true
	n.update()                            // before the resets: what is under way arrives no more
	for address, l := range n.listeners { // order: irrelevant because all of them are closed
		if hostOf(address) == hostOf(host) {
			l.close()
		}
	}
	n.reset(host, Everybody)
}

// reset has both ends of the connections between two hosts fail. The caller holds n.mu.
func (n *Net) reset(a, b string) {
	for c := range n.conns { // order: irrelevant because all of them are reset
		if matches(a, b, hostOf(c.local), hostOf(c.remote)) {
			c.in.reset()
			c.out.reset()
			delete(n.conns, c)
		}
	}
}

// Conns counts the open connections between two hosts.
func (n *Net) Conns(a, b string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	ends := 0
	for c := range n.conns { // order: irrelevant because they are counted
		if matches(a, b, hostOf(c.local), hostOf(c.remote)) {
			ends++
		}
	}
	return (ends + 1) / 2
}

// silent reports whether what from sends does not arrive at the other host.
func (n *Net) silent(from, to string) bool {
	if from == to {
		return false
	}
	return n.mutes[[2]string{from, to}] ||
		n.cuts[pairOf(from, to)] || n.cuts[pairOf(from, Everybody)] || n.cuts[pairOf(to, Everybody)]
}

func (n *Net) forget(c *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
}

func matches(a, b, local, remote string) bool {
	a, b = hostOf(a), hostOf(b)
	is := func(want, have string) bool { return want == Everybody || want == have }
	return is(a, local) && is(b, remote) || is(a, remote) && is(b, local)
}

func pairOf(a, b string) [2]string {
	a, b = hostOf(a), hostOf(b)
	if b < a {
		a, b = b, a
	}
	return [2]string{a, b}
}

func hostOf(address string) string {
	if i := strings.LastIndexByte(address, ':'); i >= 0 {
		return address[:i]
	}
	return address
}

type addr string

func (a addr) Network() string { return "mem" }
func (a addr) String() string  { return string(a) }
