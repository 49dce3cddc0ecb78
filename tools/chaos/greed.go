package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/tenderhq/tender/internal/testing/chaos"
)

// greedy is the file during whose existence a task fills the disk of its agent. filled is the file with which the task
// says that it has done so.
const (
	greedy = "greedy"
	filled = "filled"
)

// fill returns the command of such a task, which takes whatever becomes free.
func fill(dir string) string {
	return fmt.Sprintf("cat /dev/zero > zeros 2>/dev/null; true >| %s; "+
		"while [ -e %s ]; do cat /dev/zero >> zeros 2>/dev/null; sleep 0.05; done; rm -f zeros",
		filepath.Join(dir, filled), filepath.Join(dir, greedy))
}

// send makes the next task do something on an agent, waits until the task says that it has, and then removes the
// errand. A scheduler that starts later does not know which errands were done, and would wait for that agent with all
// its tasks.
func (c *cluster) send(ctx context.Context, n *node, work string) error {
	answer, next := filepath.Join(c.dir, filled), filepath.Join(c.dir, errand)
	if err := os.WriteFile(next+".new", fmt.Appendf(nil, "%d %s %s", time.Now().UnixNano(), n.name, work), 0o600); err != nil {
		return err
	}
	if err := os.Rename(next+".new", next); err != nil {
		return err
	}
	if err := c.await(ctx, "a task on "+n.name, c.options.heal, func(context.Context) string {
		if exists(answer) {
			return ""
		}
		return "none has got there"
	}); err != nil {
		return err
	}
	return errors.Join(os.Remove(next), os.Remove(answer))
}

// fillByTask makes a task fill the disk of its agent. What runs there goes on, even if the agent is restarted
// meanwhile, and ends as usual. With free space the agent takes tasks again.
func fillByTask(s *stage, n *node, f chaos.Fault) (end func() error, err error) {
	full := filepath.Join(s.dir, greedy)
	if err := os.WriteFile(full, nil, 0o600); err != nil {
		return nil, err
	}
	return func() error {
		if f.Whom2%2 == 0 {
			n.kill(syscall.SIGKILL)
			if err := n.start(); err != nil {
				return err
			}
			pause(s.ctx, f.For)
		}
		if err := os.Remove(full); err != nil {
			return err
		}
		n.forgive()
		had := s.ledger.runningOn(n.name) // it takes more as soon as it has space
		if err := s.await(s.ctx, "the end of the tasks on a full disk", s.options.heal, func(context.Context) string {
			running := s.ledger.runningOn(n.name)
			had = slices.DeleteFunc(had, func(id string) bool { return !slices.Contains(running, id) })
			if len(had) > 0 {
				return fmt.Sprint(had, " have not ended")
			}
			return ""
		}); err != nil {
			return err
		}
		return s.send(s.ctx, n, "true >| "+filepath.Join(s.dir, filled))
	}, s.send(s.ctx, n, fill(s.dir))
}
