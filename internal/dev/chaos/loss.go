package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	apiv1 "github.com/tenderhq/tender/api/v1"
)

// markGone has an agent be away, whose tasks go on, marks it gone, and lets it come back:
// its frameworks have heard that the tasks are gone, and it comes as a new one. Away is
// killed, or, every other time, cut off: then it learns what it missed while it lives.
func (c *cluster) markGone(ctx context.Context, n *node, f fault, r *report) error {
	var old string
	if err := c.await(ctx, n.name+" to be well", c.options.heal, func(ctx context.Context) (why string) {
		var err error
		if old, err = c.agentID(ctx, n); err != nil {
			why = err.Error()
		}
		return why
	}); err != nil {
		return err
	}
	h := harm{agent: n.name, began: time.Now(), ends: "GONE_BY_OPERATOR"}
	back := n.start
	if f.pick/2%2 == 0 {
		n.kill(syscall.SIGKILL)
	} else {
		c.network.setCut(n.line(), true)
		back = func() error { c.network.setCut(n.line(), false); return nil }
	}
	if err := c.look(); err != nil {
		return err
	}
	struck := c.ledger.runningOn(n.name)
	mark := []string{"gone", old}
	if f.pick%2 == 0 {
		mark = append(mark, "--force") // else as soon as the leader knows that it is away
	}
	if err := c.await(ctx, n.name+" to be marked gone", c.options.heal, func(ctx context.Context) string {
		return c.tender(ctx, mark...)
	}); err != nil {
		return err
	}
	if err := c.awaitStruck(ctx, struck, f, h, r); err != nil {
		return err
	}
	pause(ctx, f.hold)
	if err := back(); err != nil {
		return err
	}
	return c.await(ctx, n.name+"'s return as a new agent", c.options.heal, func(ctx context.Context) string {
		now, err := c.agentID(ctx, n)
		switch {
		case err != nil:
			return err.Error()
		case now == old:
			return "it is " + old + " again"
		}
		return ""
	})
}

// agentID is under which ID an agent is registered and well.
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
func (c *cluster) crashMasters(ctx context.Context, f fault) error {
	for _, m := range c.masters {
		m.signal(syscall.SIGKILL)
	}
	for _, m := range c.masters {
		m.kill(syscall.SIGKILL)
	}
	pause(ctx, f.hold)
	for _, m := range c.masters {
		if err := m.start(); err != nil {
			return err
		}
	}
	return nil
}
