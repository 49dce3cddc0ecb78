package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/tenderhq/tender/agent/walls/spaces"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/testing/freeports"
	"github.com/tenderhq/tender/tools/devcluster"
)

// walls are the flags of an agent about walls.
type walls struct {
	name string
	args []string
	held int // how many tasks run at once, to see what each takes; 0: that is not measured
}

// agentWalls are the walls that are compared, one after the other. Those that hold no tasks show what a single wall
// costs.
var agentWalls = []walls{
	{"bare", []string{"--isolation", "none", "--task-user", devcluster.Me()}, 1000},
	{"users", []string{"--isolation", "none", "--task-user", "dynamic"}, 0},
	{"control groups", []string{"--isolation", "auto", "--task-user", devcluster.Me()}, 1000},
	{"control groups and users", []string{"--isolation", "auto", "--task-user", "dynamic"}, 0},
	{"all walls", []string{"--isolation", "namespaces", "--task-user", "dynamic"}, 100},
	{"all walls, a read-only root and denied calls", []string{"--isolation", "namespaces", "--task-user", "dynamic", "--read-only-root", "--seccomp"}, 0},
}

// agentAlone measures an agent by itself: what commands cost with each kind of walls, how much memory the agent and
// they take, and what a thousand of them cost while nothing happens. After agent/ comes what is measured alone: the
// commands; or all of the walls with this name, or else with this word in their names; or only the commands of these
// (agent/commands/all walls).
func agentAlone(ctx context.Context, o options) error {
	_, part, _ := strings.Cut(o.only, "/")
	word, commands := strings.CutPrefix(part, "commands")
	word = strings.TrimPrefix(word, "/")
	called := slices.ContainsFunc(agentWalls, func(one walls) bool { return one.name == word })
	for _, walls := range agentWalls {
		held := walls.held
		if commands {
			held = 0
		}
		if called && walls.name != word || !strings.Contains(walls.name, word) {
			continue
		}
		if err := measureWalls(ctx, o, walls.name, walls.args, held); err != nil {
			return fmt.Errorf("%s: %w", walls.name, err)
		}
	}
	return nil
}

// alone is a master and an agent, as processes.
type alone struct {
	folder        string
	master, agent *devcluster.Process
	cluster       *devcluster.Cluster // as much of a cluster as a load needs
}

func startAlone(o options, args []string) (*alone, error) {
	binary, err := filepath.Abs(o.binary)
	if err != nil {
		return nil, err
	}
	parent, err := filepath.Abs(o.dir)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp(parent, "alone-")
	if err != nil {
		return nil, err
	}
	ports, err := freeports.Reserve(2)
	if err = errors.Join(err, os.Chmod(folder, 0o711)); err != nil { // the users of tasks must be able to pass through it
		return nil, err
	}
	grpc, raft := strconv.Itoa(ports[0]), strconv.Itoa(ports[1])
	a := &alone{folder: folder, cluster: &devcluster.Cluster{Dir: folder, Masters: []devcluster.Node{{ID: "m1", GRPC: "127.0.0.1:" + grpc}}}}
	a.master = &devcluster.Process{Binary: binary, Log: filepath.Join(folder, "master.log"), Args: []string{
		"master", "--insecure", "--id", "m1", "--data-dir", filepath.Join(folder, "master"), "--bind", "127.0.0.1", "--advertise", "127.0.0.1",
		"--peers", "m1=127.0.0.1:" + raft, "--grpc-port", grpc, "--raft-port", raft, "--http-port", "0",
	}}
	a.agent = &devcluster.Process{Binary: binary, Log: filepath.Join(folder, "agent.log"), Args: append([]string{
		"agent", "--insecure", "--master", "127.0.0.1:" + grpc, "--data-dir", filepath.Join(folder, "agent"), "--bind", "127.0.0.1", "--http-port", "0",
		"--resources", "cpus:64;mem:65536", "--recovery-timeout", "0",
	}, args...)}
	return a, errors.Join(a.master.Start(), a.agent.Start())
}

// watch ends the measurement when one of the processes ends, with the last lines that it has written.
func (a *alone) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	over := a.agent
	select {
	case <-a.agent.Ended():
	case <-a.master.Ended():
		over = a.master
	case <-ctx.Done():
		return
	}
	said, _ := os.ReadFile(over.Log)
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	cancel(fmt.Errorf("tender %s has ended: %s", over.Args[0], lines[len(lines)-1]))
}

func (a *alone) stop() error {
	return errors.Join(a.agent.Stop(), a.master.Stop(), os.RemoveAll(a.folder))
}

func measureWalls(ctx context.Context, o options, name string, args []string, held int) (err error) {
	a, err := startAlone(o, args)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.stop()) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go a.watch(ctx, cancel)
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}()
	var c commands
	if err := c.run(ctx, a.cluster, o, func(float64, bool) error { return nil }); err != nil {
		return err
	}
	row("/bin/true as command tasks, "+name, perSecond(c.rates),
		fmt.Sprintf("%s of plain fork+exec+wait; %.0f µs of CPU a task", forEachPlain(c.ratios), median(c.cpus)))
	if held == 0 {
		return nil
	}
	each, busy, err := a.hold(ctx, held)
	if err != nil {
		return err
	}
	row("memory, "+name, fmt.Sprintf("%.2f MB", each), fmt.Sprintf("for each of %d running commands, its program not counted", held))
	row(fmt.Sprintf("an agent with %d running commands, %s", held, name), fmt.Sprintf("%.1f %% of a core", busy*100), "heartbeats, and what is measured of tasks")
	return nil
}

// heldTime is how long an agent that holds tasks is watched.
const heldTime = 10 * time.Second

// hold runs count commands that do nothing. It returns how much memory our processes take for each, and what part of a
// processor the agent uses meanwhile.
func (a *alone) hold(ctx context.Context, count int) (eachMB, busy float64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	running, up := 0, make(chan struct{})
	l := &load{
		task:  func(int) api.Task { return api.Task{Command: &api.Command{Argv: []string{"/bin/sleep", "100000"}}} },
		total: count, window: count,
		onState: func(_ api.TaskID, state api.TaskState) {
			if state != api.TaskRunning {
				return
			}
			if running++; running == count {
				close(up)
			}
		},
	}
	before := a.oursMB()
	ended := make(chan error, 1)
	go func() { ended <- runLoad(ctx, a.cluster, l) }()
	select {
	case <-up:
	case err := <-ended:
		return 0, 0, err
	}
	used := ownCPU(a.agent.PID())
	select {
	case <-time.After(heldTime):
	case <-ctx.Done():
	}
	busy = (ownCPU(a.agent.PID()) - used) / heldTime.Seconds()
	eachMB = (a.oursMB() - before) / float64(count)
	cancel()
	if err := <-ended; err == nil {
		return 0, 0, errors.New("commands that do nothing have ended before they were stopped")
	}
	return eachMB, busy, nil
}

// oursMB returns the memory of the agent, its executors and the helpers of tasks, without what these run.
func (a *alone) oursMB() (sum float64) {
	all, err := procfs.AllProcs()
	if err != nil {
		return 0
	}
	for _, one := range all {
		arguments, err := one.CmdLine()
		if err != nil || len(arguments) == 0 {
			continue // it has ended
		}
		executor := len(arguments) == 2 && arguments[0] == a.agent.Binary && arguments[1] == "executor"
		if one.PID == a.agent.PID() || executor || arguments[0] == spaces.Helper && a.inOurCells(one) {
			sum += shareMB(one.PID)
		}
	}
	return sum
}

// inOurCells says whether a helper belongs to this agent, whose folder names its control groups.
func (a *alone) inOurCells(one procfs.Proc) bool {
	cells, err := os.ReadFile(filepath.Join(a.folder, "agent", "cells"))
	if err != nil {
		return false
	}
	groups, err := one.Cgroups()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(groups, func(group procfs.Cgroup) bool {
		_, below, found := strings.Cut(group.Path, "/tender-")
		name, _, _ := strings.Cut(below, "/")
		return found && strings.Contains(string(cells), "/tender-"+name+`"`)
	})
}

// shareMB returns a process's part of the memory, with shared pages divided among those who share them; 0 if it has
// ended.
func shareMB(pid int) float64 {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return 0
	}
	sum, err := process.ProcSMapsRollup()
	if err != nil {
		return 0
	}
	return float64(sum.Pss) / (1 << 20)
}
