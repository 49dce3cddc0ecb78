package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/agent/walls/cell"
	"github.com/tenderhq/tender/internal/dev/devcluster"
)

// cluster is a master and an agent, as processes.
type cluster struct {
	folder string
	master string // its address
	http   string // the agent's
	boss   *devcluster.Process
	agent  *devcluster.Process
}

const (
	healMax = 2 * time.Minute // longer, and the agent has not come back
	endMax  = 2 * time.Minute // longer, and a status is lost
	lookMin = 2 * time.Millisecond
)

// newCluster makes its folder, which is not in /tmp: what is there tasks with namespaces do not see.
func newCluster(o options) (*cluster, error) {
	binary, err := filepath.Abs(o.binary)
	if err != nil {
		return nil, err
	}
	parent := os.TempDir()
	if os.Geteuid() == 0 {
		parent = "/var/lib"
	}
	folder, err := os.MkdirTemp(parent, "tender-chaos-agent-")
	if err != nil {
		return nil, err
	}
	ports, err := devcluster.FreePorts(3)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(folder, 0o711); err != nil { // the users of tasks pass through it
		return nil, err
	}
	c := &cluster{folder: folder, master: "127.0.0.1:" + strconv.Itoa(ports[0]), http: "127.0.0.1:" + strconv.Itoa(ports[2])}
	c.boss = &devcluster.Process{Binary: binary, Log: filepath.Join(folder, "master.log"), Args: []string{
		"master", "--insecure", "--id", "m1", "--data-dir", filepath.Join(folder, "master"), "--bind", "127.0.0.1", "--advertise", "127.0.0.1",
		"--peers", "m1=127.0.0.1:" + strconv.Itoa(ports[1]),
		"--grpc-port", strconv.Itoa(ports[0]), "--raft-port", strconv.Itoa(ports[1]), "--http-port", "0", "--log-level", "info",
	}}
	c.agent = &devcluster.Process{Binary: binary, Log: filepath.Join(folder, "agent.log"), Args: []string{
		"agent", "--insecure", "--master", c.master, "--data-dir", c.agentFolder(), "--hostname", "a1", "--bind", "127.0.0.1", "--http-port", strconv.Itoa(ports[2]),
		"--resources", fmt.Sprintf("cpus:%d;mem:%d", 2*o.executors, 100*o.executors), "--isolation", o.isolation, "--recovery-timeout", "10m",
		"--sandboxes-max", "1000000", "--executor-idle", "10m", "--log-level", "info",
	}}
	return c, nil
}

func (c *cluster) agentFolder() string { return filepath.Join(c.folder, "agent") }

func (c *cluster) start() error { return errors.Join(c.boss.Start(), c.agent.Start()) }

// kill ends both; what the agent has left is ended by its cells.
func (c *cluster) kill() error {
	err := errors.Join(c.agent.Kill(), c.boss.Kill())
	if root, found := c.cells(); found {
		ctx, cancel := context.WithTimeout(context.Background(), healMax)
		defer cancel()
		err = errors.Join(err, root.End(ctx))
	}
	return err
}

// cells is where the agent has its control groups, by its own word.
func (c *cluster) cells() (root cell.Cell, found bool) {
	text, err := os.ReadFile(filepath.Join(c.agentFolder(), "cells"))
	return root, err == nil && json.Unmarshal(text, &root) == nil && root.Exists()
}

// state is what the agent tells of itself.
type state struct {
	Registered bool `json:"registered"`
	Executors  []struct {
		Framework string `json:"framework_id"`
		Connected bool   `json:"connected"`
	} `json:"executors"`
}

func (c *cluster) look(ctx context.Context) (state, error) {
	var s state
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.http+"/v1/state", nil)
	if err != nil {
		return s, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return s, err
	}
	defer response.Body.Close()
	return s, json.NewDecoder(response.Body).Decode(&s)
}

// awaitConnected waits until the agent has a session with the master, and each framework's executor one with the agent.
func (c *cluster) awaitConnected(ctx context.Context, all *frameworks) error {
	ctx, cancel := context.WithTimeout(ctx, healMax)
	defer cancel()
	for {
		now, err := c.look(ctx)
		connected := 0
		for _, one := range now.Executors {
			if one.Connected {
				connected++
			}
		}
		if err == nil && now.Registered && connected >= len(all.each) {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("after %v the agent has %d of %d executors (registered: %v): %w", healMax, connected, len(all.each), now.Registered, errors.Join(ctx.Err(), err))
		}
		pause(ctx, lookMin)
	}
}

// leftovers are what is still there when nothing should be.
type leftovers struct{ groups, mounts, processes []string }

// leftovers stops the agent and looks what it has left. Its executors have been told to end.
func (c *cluster) leftovers(ctx context.Context) (left leftovers, err error) {
	waiting, cancel := context.WithTimeout(ctx, endMax)
	defer cancel()
	for { // executors of frameworks that were torn down end
		now, err := c.look(waiting)
		if waiting.Err() != nil || err == nil && len(now.Executors) == 0 {
			break
		}
		pause(waiting, lookMin)
	}
	root, walled := c.cells()
	if err := c.agent.Stop(); err != nil {
		return left, err
	}
	if walled && root.Exists() {
		left.groups = append(left.groups, root.String())
		left.groups = append(left.groups, root.Children()...)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return left, err
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, c.folder) {
			left.mounts = append(left.mounts, strings.TrimSpace(line))
		}
	}
	left.processes, err = c.processes()
	return left, err
}

// processes are those that name the folder of the agent in their arguments or environment.
func (c *cluster) processes() (found []string, err error) {
	all, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		if _, err := strconv.Atoi(one.Name()); err != nil {
			continue
		}
		for _, file := range []string{"cmdline", "environ"} {
			text, err := os.ReadFile(filepath.Join("/proc", one.Name(), file))
			if err == nil && strings.Contains(string(text), c.agentFolder()) {
				found = append(found, one.Name())
				break
			}
		}
	}
	return found, nil
}
