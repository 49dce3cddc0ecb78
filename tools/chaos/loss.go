package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/testing/chaos"
)

// markGone makes an agent be away while its tasks go on, marks it gone, and lets it come back. Its frameworks are told
// that the tasks are gone, and it must come back as a new agent. It is away because it was killed or, every other time,
// because it was cut off: then it is told what it missed while it lives.
func markGone(s *stage, n *node, f chaos.Fault) (end func() error, err error) {
	var old string
	if err := s.await(s.ctx, n.name+" to be well", s.options.heal, func(ctx context.Context) (why string) {
		var err error
		if old, err = s.agentID(ctx, n); err != nil {
			why = err.Error()
		}
		return why
	}); err != nil {
		return nil, err
	}
	h := harm{agent: n.name, began: time.Now(), ends: "GONE_BY_OPERATOR"}
	back := n.start
	if f.Whom2/2%2 == 0 {
		n.kill(syscall.SIGKILL)
	} else {
		s.network.setCut(n.line(), true)
		back = func() error { s.network.setCut(n.line(), false); return nil }
	}
	if err := s.look(); err != nil {
		return nil, err
	}
	struck := s.ledger.runningOn(n.name)
	mark := []string{"gone", old}
	if f.Whom2%2 == 0 {
		mark = append(mark, "--force") // otherwise as soon as the leader knows that it is away
	}
	if err := s.await(s.ctx, n.name+" to be marked gone", s.options.heal, func(ctx context.Context) string {
		return s.tender(ctx, mark...)
	}); err != nil {
		return nil, err
	}
	return func() error {
		if err := back(); err != nil {
			return err
		}
		return s.await(s.ctx, n.name+"'s return as a new agent", s.options.heal, func(ctx context.Context) string {
			now, err := s.agentID(ctx, n)
			switch {
			case err != nil:
				return err.Error()
			case now == old:
				return "it is " + old + " again"
			}
			return ""
		})
	}, s.awaitStruck(struck, f, h)
}

// agentID returns the ID under which an agent is registered and well.
func (c *cluster) agentID(ctx context.Context, n *node) (string, error) {
	leader := c.leader(ctx)
	if leader == nil {
		return "", fmt.Errorf("nobody leads")
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	agents, err := c.operator(leader).ListAgents(ctx, &apiv1.ListRequest{})
	if err != nil {
		return "", err
	}
	for _, a := range agents.GetItems() {
		if a.GetHostname() == n.name && (a.GetState() == "RUNNING" || a.GetState() == "BUSY") {
			return a.GetId(), nil
		}
	}
	return "", fmt.Errorf("no agent %s is well", n.name)
}

// crashMasters kills all masters at once and starts them again.
func crashMasters(s *stage, _ *node, _ chaos.Fault) (end func() error, err error) {
	for _, m := range s.masters {
		m.signal(syscall.SIGKILL)
	}
	for _, m := range s.masters {
		m.kill(syscall.SIGKILL)
	}
	return func() error { return startAll(s.masters) }, nil
}
