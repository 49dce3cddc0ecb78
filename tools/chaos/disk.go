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
	"github.com/tenderhq/tender/internal/testing/chaos"
)

// smallDisk is a file system in memory that can become full.
type smallDisk struct {
	dir  string
	said time.Time // when the log last said that the disk is full
}

// sayAgain is how long a master only counts a warning after it has logged it.
const sayAgain = time.Minute

func (d *smallDisk) ballast() string { return filepath.Join(d.dir, "ballast") }

// fill takes all free space.
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
	if said, err := exec.Command("cp", "-a", d.dir, to).CombinedOutput(); err != nil { // there are sockets too
		fmt.Fprintf(os.Stderr, "chaos: evidence of a small disk: %v: %s\n", err, said)
	}
}

// seat makes a master the leader, or makes sure that it is not.
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

// fillUp takes all free space of a master's disk while much is written. A leader must give up its office to another
// one, writes must go on, and the log must say why.
func fillUp(s *stage, n *node, f chaos.Fault) (end func() error, err error) {
	log, fat := filepath.Join(s.dir, n.name+".log"), filepath.Join(s.dir, "fat")
	before, err := os.Stat(log)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(s.disk.fill(), os.WriteFile(fat, nil, 0o600)); err != nil {
		return nil, err
	}
	return func() error {
		err := s.awaitWrite()
		said := saysFull(log, before.Size())
		switch {
		case said:
			s.disk.said = time.Now()
		case f.Do.Whom() == "follower": // it logs that only if it needed space
			said = saysFull(log, 0) || s.laggard(s.ctx) == ""
		case time.Since(s.disk.said) < sayAgain+time.Since(s.began):
			said = true // it was logged lately, and is only counted
		}
		if err == nil && !said {
			s.r.broken = append(s.r.broken, n.name+"'s disk was full, and its log does not say so")
		}
		err = errors.Join(err, s.disk.free(), os.Remove(fat))
		n.forgive()
		return err
	}, s.awaitAnother(n, f)
}

// awaitAnother waits for the leader that replaces the one with the full disk.
func (s *stage) awaitAnother(n *node, f chaos.Fault) error {
	if f.Do.Whom() != "leader" {
		return nil
	}
	return s.await(s.ctx, "another leader", s.options.heal, func(ctx context.Context) string {
		if leader := s.leader(ctx); leader == nil || leader == n {
			return n.name + " has no room and makes none for another leader"
		}
		return ""
	})
}

// awaitWrite waits until a new write is acknowledged.
func (s *stage) awaitWrite() error {
	began := time.Now()
	return s.await(s.ctx, "a write beside the full disk", s.options.heal, func(context.Context) string {
		if s.ledger.store.wrote.After(began) {
			return ""
		}
		return "none was acknowledged"
	})
}

func saysFull(log string, from int64) bool {
	text, err := os.ReadFile(log)
	return err == nil && bytes.Contains(text[min(from, int64(len(text))):], []byte(syscall.ENOSPC.Error()))
}
