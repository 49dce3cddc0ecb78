package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/tenderhq/tender/internal/testing/chaos"
)

// keepCopy kills a process, copies its folder and starts it again. The function that it returns puts the copy in the
// folder's place, as a disk does that was set back; the process does not run meanwhile.
func (c *cluster) keepCopy(ctx context.Context, n *node) (setBack func() error, err error) {
	folder := filepath.Join(c.dir, n.name)
	n.kill(syscall.SIGKILL)
	if said, err := exec.CommandContext(ctx, "cp", "-a", folder, folder+".copy").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("a copy of %s: %w: %s", folder, err, said)
	}
	return func() error { return errors.Join(os.RemoveAll(folder), os.Rename(folder+".copy", folder)) }, n.start()
}

// setFollowerBack sets the folder of a follower back. A write that is acknowledged while it is down is known to a
// majority without it, with all before: nothing is lost, and it learns anew what it has forgotten (R51).
func setFollowerBack(s *stage, n *node, _ chaos.Fault) (end func() error, err error) {
	setBack, err := s.keepCopy(s.ctx, n)
	if err != nil {
		return nil, err
	}
	return func() error {
		if err := s.awaitWrite(); err != nil {
			return err
		}
		n.kill(syscall.SIGKILL)
		if err := s.awaitWrite(); err != nil {
			return err
		}
		return errors.Join(setBack(), n.start())
	}, nil
}

// awaitOthers waits until something runs on the agent that did not before.
func (c *cluster) awaitOthers(ctx context.Context, n *node, before []string) error {
	return c.await(ctx, "another task on "+n.name, c.options.heal, func(context.Context) string {
		if slices.ContainsFunc(c.ledger.runningOn(n.name), func(id string) bool { return !slices.Contains(before, id) }) {
			return ""
		}
		return "none runs"
	})
}
