package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tenderhq/tender/internal/trust"
)

// quiet is the file by which clerks are told to ask nothing: what was written after a
// snapshot is lost with what came after it.
const quiet = "quiet"

// restore brings back a snapshot of the registry, as an operator does who has nothing
// else: a quorum of one, which the others join with empty folders. Agents and schedulers
// run on all the time, and tasks that began after the snapshot are known to agents only.
func (c *cluster) restore(ctx context.Context, f fault) (err error) {
	still, saved := filepath.Join(c.dir, quiet), filepath.Join(c.dir, fmt.Sprint("saved-", time.Now().UnixNano()))
	if err := os.WriteFile(still, nil, 0o600); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(still)) }()
	if err := c.awaitQuiet(ctx); err != nil {
		return err
	}
	if err := c.await(ctx, "a snapshot", c.options.heal, func(ctx context.Context) string {
		return c.tender(ctx, "raft", "snapshot", "save", saved)
	}); err != nil {
		return err
	}
	began := time.Now()
	if err := c.awaitTask(ctx, began); err != nil { // which the snapshot does not know
		return err
	}
	key, err := trust.ReadKey(filepath.Join(c.dir, c.masters[0].name)) // no snapshot holds it: an operator has a copy
	if err != nil {
		return err
	}
	if err := c.loseMasters(); err != nil {
		return err
	}
	pause(ctx, f.hold)
	first := c.masters[0]
	if why := c.tender(ctx, "raft", "snapshot", "restore", saved, "--data-dir", filepath.Join(c.dir, first.name),
		"--id", first.name, "--raft-address", first.proxies[1].front); why != "" {
		return errors.New(why)
	}
	for i, m := range c.masters {
		if !key.IsZero() {
			err = trust.WriteKey(filepath.Join(c.dir, m.name), key)
		}
		if err = errors.Join(err, m.start()); err != nil {
			return err
		}
		if i == 0 {
			continue
		}
		if err := c.await(ctx, m.name+" to join", c.options.heal, func(ctx context.Context) string {
			return c.tender(ctx, "raft", "add", m.name, m.proxies[1].front)
		}); err != nil {
			return err
		}
		m.forgive()
	}
	return nil
}

// awaitQuiet returns when each clerk has been answered, or will not be.
func (c *cluster) awaitQuiet(ctx context.Context) error {
	pause(ctx, 2*clerkEvery) // who had just found that it may ask has done so
	return c.await(ctx, "the clerks' answers", c.options.heal, func(context.Context) string {
		for _, s := range c.schedulers {
			if c.ledger.store.waits(fmt.Sprint(s.name, "-", s.pid())) {
				return s.name + " awaits one"
			}
		}
		return ""
	})
}

// loseMasters kills all masters and empties their folders.
func (c *cluster) loseMasters() error {
	for _, m := range c.masters {
		m.kill(syscall.SIGKILL)
	}
	for _, m := range c.masters {
		files, err := filepath.Glob(filepath.Join(c.dir, m.name, "*"))
		for _, file := range files {
			err = errors.Join(err, os.RemoveAll(file))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
