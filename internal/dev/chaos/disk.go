package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	apiv1 "github.com/tenderhq/tender/api/v1"
)

// smallDisk is a file system in memory that can be full.
type smallDisk struct {
	dir  string
	said time.Time // when the log said last that it was
}

// sayAgain is how long a master only counts a warning that it has told.
const sayAgain = time.Minute

func (d *smallDisk) ballast() string { return filepath.Join(d.dir, "ballast") }

// fill takes all room there is.
func (d *smallDisk) fill() error {
	file, err := os.OpenFile(d.ballast(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	for size := 1 << 20; size > 0; {
		if _, err := file.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (d *smallDisk) free() error { return os.Remove(d.ballast()) }

// keep copies what a failed run has left.
func (d *smallDisk) keep(to string) {
	_ = os.Remove(d.ballast())                                                         // nobody wants it
	if said, err := exec.Command("cp", "-a", d.dir, to).CombinedOutput(); err != nil { // sockets too
		fmt.Fprintf(os.Stderr, "chaos: evidence of a small disk: %v: %s\n", err, said)
	}
}

// seat makes a master the leader, or makes sure that it is none.
func (c *cluster) seat(ctx context.Context, n *node, leads bool) error {
	return c.await(ctx, "the wanted leader", c.options.heal, func(ctx context.Context) string {
		leader := c.leader(ctx)
		if leader == nil || (leader == n) == leads {
			return c.illness(ctx, time.Time{})
		}
		to := ""
		if leads {
			to = n.name
		}
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		if _, err := c.raft(leader).TransferLeader(ctx, &apiv1.TransferLeaderRequest{Id: to}); err != nil {
			return err.Error()
		}
		return "leadership was just handed over"
	})
}

// fillUp takes all room of a master's disk while much is written. A leader has to make
// room for another one; writes go on; and the log says why.
func (c *cluster) fillUp(ctx context.Context, n *node, f fault, r *report) error {
	log := filepath.Join(c.dir, n.name+".log")
	before, err := os.Stat(log)
	if err != nil {
		return err
	}
	began, fat := time.Now(), filepath.Join(c.dir, "fat")
	if err := errors.Join(c.disk.fill(), os.WriteFile(fat, nil, 0o600)); err != nil {
		return err
	}
	err = c.feelFull(ctx, n, f)
	said := saysFull(log, before.Size())
	switch {
	case said:
		c.disk.said = time.Now()
	case f.whom == "follower": // it says so only if it needed room
		said = saysFull(log, 0) || c.laggard(ctx) == ""
	case time.Since(c.disk.said) < sayAgain+time.Since(began):
		said = true // it was told lately, and is only counted
	}
	if err == nil && !said {
		r.broken = append(r.broken, n.name+"'s disk was full, and its log does not say so")
	}
	err = errors.Join(err, c.disk.free(), os.Remove(fat))
	n.forgive()
	return err
}

// feelFull waits for the consequences of a full disk.
func (c *cluster) feelFull(ctx context.Context, n *node, f fault) error {
	if f.whom == "leader" {
		if err := c.await(ctx, "another leader", c.options.heal, func(ctx context.Context) string {
			if leader := c.leader(ctx); leader == nil || leader == n {
				return n.name + " has no room and makes none for another leader"
			}
			return ""
		}); err != nil {
			return err
		}
	}
	pause(ctx, f.hold)
	began := time.Now()
	return c.await(ctx, "a write beside the full disk", c.options.heal, func(context.Context) string {
		if c.ledger.store.wrote.After(began) {
			return ""
		}
		return "none was acknowledged"
	})
}

func saysFull(log string, from int64) bool {
	text, err := os.ReadFile(log)
	return err == nil && bytes.Contains(text[min(from, int64(len(text))):], []byte(syscall.ENOSPC.Error()))
}
