package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tenderhq/tender/agent/walls/cell"
	"github.com/tenderhq/tender/internal/testing/chaos"
)

// An agent with many executors is killed and started again, over and over. It is the only agent; there are one master,
// and as many frameworks as executors. Measured are how long it takes until all executors are back, whether any task is
// lost or runs twice, and what the agent leaves behind.

// upMax is how long the agent is left alone, at most, when everything is back; it is away for up to a quarter of that.
const upMax = 300 * time.Millisecond

// parent returns where to make the folder of a run. Tasks with namespaces can't see what is in /tmp.
func (o options) parent() string {
	if o.executors > 0 && os.Geteuid() == 0 {
		return "/var/lib"
	}
	return ""
}

// onlyAgent is the agent that is killed. Its port stays the same, so that it can be asked at once.
func (c *cluster) onlyAgent(binary string) *node {
	return &node{name: "a1", binary: binary, dir: c.dir, args: []string{
		"agent", "--insecure", "--master", c.addresses(), "--data-dir", filepath.Join(c.dir, "a1"), "--hostname", "a1",
		"--bind", "127.0.0.1", "--http-port", c.agentPorts[0], "--isolation", c.options.isolation,
		"--resources", fmt.Sprintf("cpus:%d;mem:%d", 2*c.options.executors, 100*c.options.executors), "--recovery-timeout", "10m",
		"--sandboxes-max", "1000000", "--executor-idle", "10m", "--log-level", "info",
	}}
}

// killAgent kills the agent in each round, and checks the promises.
func (c *cluster) killAgent(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, c.endCells()) }()
	keepers, err := startKeepers(ctx, c)
	if err != nil {
		return err
	}
	defer keepers.end()
	if err := c.start(ctx); err != nil {
		return err
	}
	if err := c.awaitExecutors(ctx, c.options.executors); err != nil {
		return err
	}
	r, killed := &report{options: c.options}, harm{agent: "a1", began: time.Now(), ends: "KILLED"}
	acts := []act{{Do: chaos.KillAgent, Most: upMax / 4, Begin: on(firstAgent, killAgain)}}
	if err := chaos.Play(chaos.Rounds(c.options.seed, c.options.rounds, acts), &stage{cluster: c, ctx: ctx, r: r}, acts); err != nil {
		return err
	}
	if err := keepers.finish(ctx); err != nil {
		return err
	}
	killed.over = time.Now()
	r.harms = append(r.harms, killed)
	err = c.verdict(ctx, r)
	for state, count := range r.tasks {
		switch { // a task that was never started is DROPPED, and one for each executor is killed in the end
		case state == "FINISHED", state == "DROPPED", state == "KILLED" && count == c.options.executors:
		default:
			r.broken = append(r.broken, fmt.Sprintf("%d tasks ended %s", count, state))
		}
	}
	keepers.end()
	left, err2 := c.leftBehind(ctx, r)
	r.broken = append(r.broken, left...)
	return r.conclude(errors.Join(err, err2))
}

// killAgain leaves the agent alone for a while before it kills it, and measures the time from its new start.
func killAgain(s *stage, agent *node, f chaos.Fault) (end func() error, err error) {
	pause(s.ctx, upMax*time.Duration(f.Whom2)/100)
	agent.kill(syscall.SIGKILL) // tasks end meanwhile and nobody is told
	return func() error {
		s.began = time.Now()
		return agent.start()
	}, nil
}

// executorsBack waits until everything is well again.
func (s *stage) executorsBack(f chaos.Fault) error {
	if err := s.awaitExecutors(s.ctx, s.options.executors); err != nil {
		return err
	}
	s.agents[0].forgive()
	s.r.add(f, s.began, time.Since(s.began), s.ledger)
	return nil
}

// awaitExecutors waits until the agent has a session with the master, and that many executors have one with the agent.
func (c *cluster) awaitExecutors(ctx context.Context, want int) error {
	return c.await(ctx, "the agent with its executors", 4*c.options.heal, func(ctx context.Context) string {
		var state struct {
			Registered bool `json:"registered"`
			Executors  []struct {
				Connected bool `json:"connected"`
			} `json:"executors"`
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+c.agentPorts[0]+"/v1/state", nil)
		if err != nil {
			return err.Error()
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err.Error()
		}
		defer response.Body.Close()
		if err := json.NewDecoder(response.Body).Decode(&state); err != nil {
			return err.Error()
		}
		connected := 0
		for _, executor := range state.Executors {
			if executor.Connected {
				connected++
			}
		}
		if !state.Registered || connected < want || want == 0 && len(state.Executors) > 0 {
			return fmt.Sprintf("it has %d executors, %d are connected, %d are wanted (registered: %v)", len(state.Executors), connected, want, state.Registered)
		}
		return ""
	})
}

// cells returns where the agent has its control groups, as it has written down.
func (c *cluster) cells() (root cell.Cell, found bool) {
	text, err := os.ReadFile(filepath.Join(c.dir, "a1", "cells"))
	return root, err == nil && json.Unmarshal(text, &root) == nil && root.Exists()
}

// endCells ends what the agent has left, if the run ends early.
func (c *cluster) endCells() error {
	c.agents[0].kill(syscall.SIGKILL)
	root, found := c.cells()
	if !found {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), hangAfter)
	defer cancel()
	return root.End(ctx)
}

// leftBehind stops the agent after its frameworks were removed, and returns what is still there of it.
func (c *cluster) leftBehind(ctx context.Context, r *report) (left []string, err error) {
	err = c.awaitExecutors(ctx, 0)
	r.verify(ctx, c, "without frameworks")
	root, walled := c.cells()
	c.agents[0].kill(syscall.SIGTERM)
	if walled && root.Exists() {
		for _, group := range append(root.Children(), root.String()) {
			left = append(left, "control group left: "+group)
		}
	}
	mounts, err2 := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, c.dir) {
			left = append(left, "mount left: "+strings.TrimSpace(line))
		}
	}
	for _, pid := range leftovers(filepath.Join(c.dir, "a1")) {
		left = append(left, "process left: "+strconv.Itoa(pid))
	}
	slices.Sort(left)
	return left, errors.Join(err, err2)
}
