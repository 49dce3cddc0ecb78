package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/tenderhq/tender/internal/testing/chaos"
)

// booted is the argument that makes this program become an agent on a host with a boot ID of ours.
const booted = "booted"

// host is what an agent takes for its machine. It can be rebooted.
type host struct {
	file  string // holds the ID of its boot
	boots int    // guarded by the node's mu
}

// giveHost makes an agent see its own machine.
func (n *node) giveHost(self string) error {
	n.host = &host{file: filepath.Join(n.dir, n.name+".boot")}
	n.args, n.binary = append([]string{booted, n.host.file, n.binary}, n.args...), self
	return n.boot()
}

// boot writes a new boot ID.
func (n *node) boot() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.host.boots++
	return os.WriteFile(n.host.file, fmt.Appendf(nil, "%s-%d\n", n.name, n.host.boots), 0o600)
}

// line returns the name of a process's connections: those of an agent's earlier boot have another name.
func (n *node) line() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.host == nil {
		return n.name
	}
	return fmt.Sprint(n.name, "/", n.host.boots)
}

// reboot plays a host that loses its power and is back within a second. It closes no connection, so the leader has a
// stream to it that is silent for ever. Every other time its disk is an older one, as of a virtual machine that was set
// back: tasks have ended and begun of which it knows nothing.
func reboot(s *stage, n *node, f chaos.Fault) (end func() error, err error) {
	setBack := func() error { return nil }
	if f.Whom2%2 == 0 && n != s.agents[0] { // a file system is mounted in the folder of the first one
		before := s.ledger.runningOn(n.name)
		if setBack, err = s.keepCopy(s.ctx, n); err == nil {
			err = s.awaitOthers(s.ctx, n, before)
		}
		if err != nil {
			return nil, err
		}
	}
	h := harm{agent: n.name, began: time.Now(), ends: "GONE"}
	s.network.setCut(n.line(), true)
	n.kill(syscall.SIGKILL)
	for running := s.processesOn(n); len(running) > 0; running = s.processesOn(n) {
		for _, pid := range running {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended already
		}
	}
	if err := s.look(); err != nil {
		return nil, err
	}
	struck := s.ledger.runningOn(n.name)
	return func() error {
		if err := errors.Join(setBack(), n.boot()); err != nil {
			return err
		}
		if err := n.start(); err != nil {
			return err
		}
		return s.awaitStruck(struck, f, h)
	}, nil
}

// killExecutors kills the executors of an agent, but none of the tasks' own processes.
func killExecutors(s *stage, n *node, f chaos.Fault) (end func() error, err error) {
	h := harm{agent: n.name, began: time.Now(), ends: "FAILED"}
	for _, pid := range s.processesOn(n) {
		command, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if words := bytes.Split(command, []byte{0}); err == nil && len(words) > 1 && string(words[1]) == "executor" {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended already
		}
	}
	return nil, s.awaitStruck(s.ledger.runningOn(n.name), f, h)
}

// processesOn returns an agent's executors and tasks, by their environment. Processes that have ended and were not
// waited for do not count.
func (c *cluster) processesOn(n *node) []int {
	return slices.DeleteFunc(leftovers(filepath.Join(c.dir, n.name)+string(filepath.Separator)), func(pid int) bool {
		return pid == n.pid()
	})
}
