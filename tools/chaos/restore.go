package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tenderhq/tender/internal/testing/chaos"
	"github.com/tenderhq/tender/internal/trust"
)

// quiet is the file that tells clerks to ask nothing, because what is written after a snapshot is lost with the rest.
const quiet = "quiet"

// restore restores a snapshot of the registry, as an operator does who has nothing else: first a quorum of one, which
// the other masters join with empty folders. Agents and schedulers run on all the time, and tasks that began after the
// snapshot are known only to agents.
func restore(s *stage, first *node, _ chaos.Fault) (end func() error, err error) {
	still, saved := filepath.Join(s.dir, quiet), filepath.Join(s.dir, fmt.Sprint("saved-", time.Now().UnixNano()))
	if err := os.WriteFile(still, nil, 0o600); err != nil {
		return nil, err
	}
	if err := s.awaitQuiet(s.ctx); err != nil {
		return nil, err
	}
	if err := s.await(s.ctx, "a snapshot", s.options.heal, func(ctx context.Context) string {
		return s.tender(ctx, "raft", "snapshot", "save", saved)
	}); err != nil {
		return nil, err
	}
	if err := s.awaitTask(s.ctx, time.Now()); err != nil { // a task that the snapshot does not know
		return nil, err
	}
	key, err := trust.ReadKey(filepath.Join(s.dir, first.name)) // no snapshot contains it; an operator has a copy
	if err != nil {
		return nil, err
	}
	return func() error {
		if why := s.tender(s.ctx, "raft", "snapshot", "restore", saved, "--data-dir", filepath.Join(s.dir, first.name),
			"--id", first.name, "--raft-address", first.proxies[1].front); why != "" {
			return errors.New(why)
		}
		return errors.Join(s.rejoin(key), os.Remove(still))
	}, s.loseMasters()
}

// rejoin starts all masters, of which only the first one still has a folder with content.
func (s *stage) rejoin(key trust.Key) (err error) {
	first := s.masters[0]
	if !key.IsZero() {
		err = trust.WriteKey(filepath.Join(s.dir, first.name), key)
	}
	if err = errors.Join(err, first.start()); err != nil {
		return err
	}
	for _, m := range s.masters[1:] {
		if err := s.enter(s.ctx, m, key); err != nil {
			return err
		}
	}
	return nil
}

// awaitQuiet waits until each clerk was answered, or can't be any more.
func (c *cluster) awaitQuiet(ctx context.Context) error {
	pause(ctx, 2*clerkEvery) // a clerk that had just found that it may ask has done so by then
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
