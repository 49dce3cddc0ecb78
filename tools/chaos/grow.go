package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/internal/testing/chaos"
	"github.com/tenderhq/tender/internal/trust"
)

// The quorum changes while tasks run: one master becomes three, then five, then three others, with a new leader each
// time. Agents and schedulers are given the address of the first master only, and that one is removed too.

// grow takes the quorum through these steps and reports how long each took.
func (c *cluster) grow(ctx context.Context, r *report) error {
	steps := []struct {
		what string
		do   func(context.Context) error
	}{
		{"1 -> 3 masters", func(ctx context.Context) error { return c.add(ctx, 2) }},
		{"the first master is killed and comes back", func(ctx context.Context) error {
			end, _ := kill(&stage{cluster: c, ctx: ctx, began: time.Now()}, c.masters[0], chaos.Fault{Do: chaos.KillLeader})
			return end()
		}},
		{"3 -> 5 masters", func(ctx context.Context) error { return c.add(ctx, 2) }},
		{"leadership is handed over", c.handOver},
		{"5 -> 4 masters, without the first", func(ctx context.Context) error { return c.remove(ctx, c.masters[0]) }},
		{"4 -> 3 masters, without the leader", c.removeLeader},
		{"leadership is handed over once more", c.handOver},
	}
	for _, step := range steps {
		began := time.Now()
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		over := time.Now()
		if err := c.await(ctx, step.what, c.options.heal, func(ctx context.Context) string { return c.illness(ctx, over) }); err != nil {
			return err
		}
		r.healed = append(r.healed, time.Since(over))
		fmt.Printf("%s: %v, well after %v\n", step.what, over.Sub(began).Round(time.Millisecond), time.Since(over).Round(time.Millisecond))
	}
	return nil
}

// add starts masters that are not part of the quorum yet, and makes them join.
func (c *cluster) add(ctx context.Context, count int) error {
	for range count {
		n := c.spare[0]
		if err := c.enter(ctx, n, trust.Key{}); err != nil {
			return err
		}
		c.masters, c.spare = append(c.masters, n), c.spare[1:]
	}
	pause(ctx, newsTravels)
	return nil
}

// enter starts a master with an empty folder, and makes it join. In a cluster with certificates it is given the key.
func (c *cluster) enter(ctx context.Context, n *node, key trust.Key) error {
	if !key.IsZero() {
		if err := trust.WriteKey(filepath.Join(c.dir, n.name), key); err != nil {
			return err
		}
	}
	if err := n.start(); err != nil {
		return err
	}
	err := c.await(ctx, n.name+" to join", c.options.heal, func(ctx context.Context) string { // refused as long as it is starting
		return c.tender(ctx, "raft", "add", n.name, n.proxies[1].front)
	})
	n.forgive()
	return err
}

// newsTravels is how long it takes until agents and schedulers know a new master: it announces itself within a second,
// and they are told with the next heartbeat.
const newsTravels = 4 * time.Second

// remove removes a master from the quorum. Its process is not started again.
func (c *cluster) remove(ctx context.Context, n *node) error {
	n.retire()
	if err := c.leave(ctx, n); err != nil {
		return err
	}
	c.masters = slices.DeleteFunc(slices.Clone(c.masters), func(m *node) bool { return m == n })
	c.gone = append(c.gone, n)
	return nil
}

// leave removes a master from the quorum, whatever becomes of its process.
func (c *cluster) leave(ctx context.Context, n *node) error {
	return c.await(ctx, n.name+" to leave", c.options.heal, func(ctx context.Context) string {
		said := c.tender(ctx, "raft", "remove", n.name)
		if strings.Contains(said, "no such master is in the quorum") {
			return "" // an earlier try has succeeded; a leader that removes itself may end before it answers
		}
		return said
	})
}

func (c *cluster) removeLeader(ctx context.Context) error {
	n, err := c.awaitLeader(ctx)
	if err != nil {
		return err
	}
	return c.remove(ctx, n)
}

func (c *cluster) handOver(ctx context.Context) error {
	return c.await(ctx, "another leader", c.options.heal, func(ctx context.Context) string {
		return c.tender(ctx, "raft", "transfer-leader")
	})
}

// commandTimeout limits how long a command may take.
const commandTimeout = time.Minute

// ask runs a command as an operator would, and returns its output.
func (c *cluster) ask(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, c.masters[0].binary, args...)
	command.Env = slices.Concat(os.Environ(), []string{"TENDER_MASTER=" + c.addresses()}, c.trust.variables())
	return command.CombinedOutput()
}

// tender runs a command; it returns "" if that has succeeded.
func (c *cluster) tender(ctx context.Context, args ...string) string {
	out, err := c.ask(ctx, args...)
	if err != nil {
		return fmt.Sprintf("tender %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return ""
}
