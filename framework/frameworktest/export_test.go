package frameworktest

import (
	"context"
	"net"
)

// DialFrom returns a function that connects to any listener of the story's network, from this host.
func (h *Handle) DialFrom(from string) func(ctx context.Context, address string) (net.Conn, error) {
	return h.dialerOf(from)
}

// Listeners lists the addresses of all listeners in the story: gRPC of the masters, their Raft, and the agents'
// executors.
func (h *Handle) Listeners() (masters, rafts, agents []string) {
	for _, m := range h.masters {
		masters = append(masters, m.grpcAddress())
		rafts = append(rafts, net.JoinHostPort(m.host, raftPort))
	}
	for _, a := range h.agents {
		agents = append(agents, net.JoinHostPort(a.host.name, executorsPort))
	}
	return masters, rafts, agents
}
