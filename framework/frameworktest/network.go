package frameworktest

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/tenderhq/tender/internal/testing/memnet"
)

// network connects the hosts of a story. What is sent over a cut link waits and arrives when the link is whole again,
// like packets that are sent again; nobody is told.
type network struct {
	*memnet.Net

	mu      sync.Mutex
	islands map[string]bool
}

func newNetwork() *network {
	return &network{Net: memnet.New(), islands: make(map[string]bool)}
}

// jitter delays every write by up to most.
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
	return n.Listen(net.JoinHostPort(host, port))
}

func (n *network) dial(ctx context.Context, from, address string) (net.Conn, error) {
	return n.From(from).Dial(ctx, address)
}

// crash cuts a host off from everything at one moment, including connections on the host itself, between an agent and
// its executors. The host stays isolated.
func (n *network) crash(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.islands[host] = true
	n.Crash(host)
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

// heal joins all links.
func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.islands)
	n.HealAll()
}
