package frameworktest

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/tenderhq/tender/internal/testing/memnet"
)

// network joins the hosts of a story. What is sent over a cut link waits, as packets that are sent again
// do, and comes when the link is whole again; nobody is told.
type network struct {
	*memnet.Net

	mu        sync.Mutex
	listeners map[string][]net.Listener // by host
	islands   map[string]bool
}

func newNetwork() *network {
	return &network{Net: memnet.New(), listeners: make(map[string][]net.Listener), islands: make(map[string]bool)}
}

// jitter gives every write a delay of up to most.
func (n *network) jitter(most time.Duration, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	var mu sync.Mutex
	n.Delay(func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(random.Int64N(int64(most) + 1))
	})
}

func (n *network) listen(host, port string) (net.Listener, error) {
	l, err := n.Listen(net.JoinHostPort(host, port))
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners[host] = append(n.listeners[host], l)
	return l, nil
}

func (n *network) dial(ctx context.Context, from, address string) (net.Conn, error) {
	return n.From(from).Dial(ctx, address)
}

// crash resets all connections of a host and closes its listeners. What happens on the host itself,
// between an agent and its executors, is reset as well.
func (n *network) crash(host string) {
	n.mu.Lock()
	listeners := n.listeners[host]
	delete(n.listeners, host)
	n.mu.Unlock()
	for _, l := range listeners {
		_ = l.Close() // its owner may have closed it before
	}
	n.Break(host, memnet.Everybody)
}

// isolate cuts a host off from all others, or joins it again.
func (n *network) isolate(host string, alone bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.islands[host] = alone
	if alone {
		n.Cut(host, memnet.Everybody)
	} else {
		n.Heal(host, memnet.Everybody)
	}
}

func (n *network) isolated(host string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.islands[host]
}

// heal makes all links whole.
func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.islands)
	n.HealAll()
}
