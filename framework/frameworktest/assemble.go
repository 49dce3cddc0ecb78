package frameworktest

import (
	"context"
	"net"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/agent"
	_ "github.com/tenderhq/tender/allocator/fairshare" // registers the allocator
	_ "github.com/tenderhq/tender/allocator/priority"  // registers the allocator
	"github.com/tenderhq/tender/master"
	"github.com/tenderhq/tender/master/core"
)

// This file alone knows how masters and agents are assembled.

func (h *Handle) loggerOf(host string) zerolog.Logger { return zerolog.New(h.logs.writer(host)) }

func (h *Handle) dialerOf(host string) func(ctx context.Context, address string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) { return h.network.dial(ctx, host, address) }
}

// assembleLife makes the agent's process for one life, which ends when dead ends.
func (a *Agent) assembleLife(dead context.Context) (run func(context.Context) error, err error) {
	h, host := a.handle, a.host
	executors, err := h.network.listen(host.name, executorsPort)
	if err != nil {
		return nil, err
	}
	made, err := agent.New(agent.Config{
		Masters:    h.MasterAddresses(),
		Hostname:   a.machine.Hostname,
		Port:       -1,
		Resources:  a.machine.Resources,
		Attributes: a.machine.Attributes,
		Region:     a.machine.Region,
		Zone:       a.machine.Zone,
		Programs:   agent.Programs{CommandExecutor: []string{"played"}},
		Logger:     h.loggerOf(host.name),
		World: agent.World{
			ExecutorListener: executors,
			Dial:             h.dialerOf(host.name),
			Launcher:         a.launcher,
			Store:            grip{host.disk, host, dead},
			Sampler:          host,
			BootID:           host.bootID(),
		},
	})
	if err != nil {
		return nil, err
	}
	return made.Run, nil
}

// assembleLife makes the master's process for one life.
func (m *Master) assembleLife() (run func(context.Context) error, err error) {
	h := m.handle
	log := h.loggerOf(m.host)
	made, err := master.New(master.Config{
		ID:        m.id,
		Memory:    m.memory,
		Peers:     h.listFounders(),
		Trust:     master.Trust{Key: h.key, Plain: true},
		GRPC:      m.grpcAddress(),
		HTTP:      net.JoinHostPort(m.host, httpPort),
		Raft:      net.JoinHostPort(m.host, raftPort),
		Allocator: h.cluster.Allocator,
		Core: core.Config{
			HeartbeatInterval: h.cluster.Heartbeat,
			SessionTimeout:    5 * h.cluster.Heartbeat,
			OfferTimeout:      h.cluster.OfferTimeout,
			TombstoneAfter:    h.cluster.TombstoneAfter,
			GoneAfter:         h.cluster.GoneAfter,
			FailoverTimeout:   h.cluster.FailoverTimeout,
			Debug:             true,
		},
		Listen: func(address string) (net.Listener, error) {
			_, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			return h.network.listen(m.host, port)
		},
		Dial:   h.dialerOf(m.host),
		Logger: &log,
	})
	if err != nil {
		return nil, err
	}
	return made.Run, nil
}

func (h *Handle) listFounders() []master.Peer {
	if h.cluster.Masters == 1 {
		return nil
	}
	var peers []master.Peer
	for _, m := range h.masters {
		peers = append(peers, master.Peer{ID: m.id, Addr: net.JoinHostPort(m.host, raftPort)})
	}
	return peers
}
