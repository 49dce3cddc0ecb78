package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/tenderhq/tender/internal/testing/chaos"
)

// booted is the word by which we know that we are to become an agent on a host that was
// booted under an ID of ours.
const booted = "booted"

// host is what an agent takes for its machine: it can be booted again.
type host struct {
	file  string // holds the ID of its boot
	boots int    // guarded by the node's mu
}

// giveHost has an agent see a machine of its own.
func (n *node) giveHost(self string) error {
	n.host = &host{file: filepath.Join(n.dir, n.name+".boot")}
	n.args, n.binary = append([]string{booted, n.host.file, n.binary}, n.args...), self
	return n.boot()
}

// boot writes the ID of the next boot.
func (n *node) boot() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.host.boots++
	return os.WriteFile(n.host.file, fmt.Appendf(nil, "%s-%d\n", n.name, n.host.boots), 0o600)
}

// line names the connections of a process: those of an agent's former boot are not those
// of this one.
func (n *node) line() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.host == nil {
		return n.name
	}
	return fmt.Sprint(n.name, "/", n.host.boots)
}

// reboot is a host that loses its power and is back within a second: it says goodbye to
// nobody, so that the leader has a stream to it that is silent for ever.
func reboot(s *stage, n *node, f chaos.Fault) (end func() error, err error) {
	h := harm{agent: n.name, began: time.Now(), ends: "GONE"}
	s.network.setCut(n.line(), true)
	n.kill(syscall.SIGKILL)
	for running := s.processesOn(n); len(running) > 0; running = s.processesOn(n) {
		for _, pid := range running {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may just have ended
		}
	}
	if err := s.look(); err != nil {
		return nil, err
	}
	struck := s.ledger.runningOn(n.name)
	return func() error {
		if err := n.boot(); err != nil {
			return err
		}
		if err := n.start(); err != nil {
			return err
		}
		return s.awaitStruck(struck, f, h)
	}, nil
}

// killExecutors ends those of an agent, but none of the tasks' own processes.
func killExecutors(s *stage, n *node, f chaos.Fault) (end func() error, err error) {
	h := harm{agent: n.name, began: time.Now(), ends: "FAILED"}
	for _, pid := range s.processesOn(n) {
		command, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if words := bytes.Split(command, []byte{0}); err == nil && len(words) > 1 && string(words[1]) == "executor" {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may just have ended
		}
	}
	return nil, s.awaitStruck(s.ledger.runningOn(n.name), f, h)
}

// processesOn are an agent's executors and tasks: they know its folder. Who has ended and
// is not buried yet does not count.
func (c *cluster) processesOn(n *node) []int {
	return slices.DeleteFunc(leftovers(filepath.Join(c.dir, n.name)+string(filepath.Separator)), func(pid int) bool {
		return pid == n.pid()
	})
}
