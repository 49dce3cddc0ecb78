package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/tenderhq/tender/internal/pause"
)

// leaderMemory measures what a leader of many agents and ten times as many tasks has in memory: after they have come one
// after the other, and after they have come back at once. Profiles of its heap stay in the folder of the bench. What is in
// use does not depend on the machine's load.
func leaderMemory(ctx context.Context, o options) error {
	if o.heartbeat == 0 {
		o.heartbeat = lookedBeats
	}
	o.agents = cmp.Or(o.agents, herdAgents)
	bare, err := bareSessions(ctx, o)
	if err != nil {
		return fmt.Errorf("bare: %w", err)
	}
	row(fmt.Sprintf("memory of a server of %d sessions and nothing else", o.agents), fmt.Sprintf("%.0f MB resident", bare),
		fmt.Sprintf("direct streams with TLS, each with a certificate and %d records of %d bytes that are kept", tasksEach, bareBytes))
	return withHerd(ctx, o, tasksEach, func(ctx context.Context, h *herding) error {
		if err := h.weighed(ctx, "to which they came one by one", filepath.Join(o.dir, "heap-came.pprof"), bare); err != nil {
			return err
		}
		if _, err := h.round(ctx); err != nil {
			return err
		}
		return h.weighed(ctx, "to which they came back", filepath.Join(o.dir, "heap-came-back.pprof"), bare)
	})
}

// bareSessions returns what a process takes that only holds the sessions of so many agents.
func bareSessions(ctx context.Context, o options) (mb float64, err error) {
	if err := enoughFiles(o.agents); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b, err := startBare(o.dir)
	defer func() { err = errors.Join(err, b.stop()) }()
	if err != nil {
		return 0, err
	}
	return b.hold(ctx, o.agents, tasksEach)
}

// weighed reports the memory of the present leader, and writes a profile of its heap.
func (h *herding) weighed(ctx context.Context, which, file string, bare float64) error {
	leader, err := h.quorum.leader(ctx)
	if err != nil {
		return err
	}
	pid := leader.process.Process.Pid
	soon := residentMB(pid)
	pause.For(ctx, lookTime)
	later := residentMB(pid)
	if err := h.quorum.profileHeap(ctx, leader, file); err != nil {
		return err
	}
	h.row("memory of a leader "+which, fmt.Sprintf("%.0f MB resident, %.0f after %v", soon, later, lookTime), fmt.Sprintf("%d tasks; the profile of its heap is in %s", h.work.standing, file))
	atMost(fmt.Sprintf("MB of a leader of %d agents, %s", h.agents, which), later, 450)
	limited(bare)
	return nil
}

// profileHeap writes what is in use on a master's heap.
func (q *quorum) profileHeap(ctx context.Context, n *node, file string) error {
	dial := q.proof.dialer()
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return dial(ctx, address) }}}
	profile, err := get(ctx, &client, "http://"+n.http+"/debug/pprof/heap?gc=1")
	if err != nil {
		return err
	}
	return os.WriteFile(file, profile, 0o644)
}
