package process

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/executor"
	"github.com/tenderhq/tender/agent/proc"
	"github.com/tenderhq/tender/agent/walls"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// KillAll sends SIGKILL until nothing is left. The dead that nobody reaps count as gone:
// they run nothing and hold nothing. An executor that was started when there were no cells has none, and one that still
// lives when its cell is empty was taken out of it.
func (l *Launcher) KillAll(ctx context.Context, owner executor.Owner) (walls.End, error) {
	end, found, err := l.Cells.Clear(ctx, owner.Executor)
	if found && (err != nil || !proc.Alive(owner.Leader.PID, owner.Leader.Start)) {
		return end, err
	}
	return end, killListed(ctx, owner)
}

// killListed finds what is the owner's in the table of processes, as often as it takes.
func killListed(ctx context.Context, owner executor.Owner) error {
	// A change of programs takes a moment, and who does it again and again is found: for five seconds without an environment is
	// only who is held up in the midst of it, by a disk that does not answer, and that may be anybody's.
	const pauseMax, looksMax = 50 * time.Millisecond, 100
	looks, known := 0, map[core.Process]bool{}
	for pause := time.Millisecond; ; pause = min(2*pause, pauseMax) {
		left, unknown, err := living(owner, known)
		if looks++; err != nil || len(left) == 0 && (!unknown || looks > looksMax) {
			return err
		}
		for _, group := range left {
			if err := signal(group); err != nil {
				return err
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Kill sends SIGKILL to one task, by its cell or by its process group, if that is the owner's.
func (l *Launcher) Kill(owner executor.Owner, task api.TaskID, group core.Process) error {
	if found, err := l.Cells.KillTask(owner.Executor, task); found {
		return err
	}
	left, _, err := living(owner, map[core.Process]bool{})
	if err != nil {
		return err
	}
	if slices.Contains(left, group.PID) {
		return signal(group.PID)
	}
	if proc.Alive(group.PID, group.Start) {
		return api.E("agent.kill", api.Denied, strconv.Itoa(group.PID),
			errors.New("the executor has named a process group that is not its own, which is left alone"))
	}
	return nil
}

func signal(group int) error {
	err := syscall.Kill(-group, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.EPERM) && !visible(group) {
		return nil
	}
	return err
}

// visible: darwin answers EPERM for a group of nothing but dead processes.
func visible(group int) bool {
	all, err := proc.All()
	return err != nil || slices.ContainsFunc(all, func(p proc.Stat) bool { return p.Group == group && !p.Dead })
}

// living lists the process groups with living members that are the owner's. A number that the kernel has given to
// somebody else since is left alone: it does so only after the last of ours is gone. unknown: there may be others, whose
// environment cannot be read just now. Those that an earlier look has found are in known, to which this one adds: a
// process that is being killed has no environment any more before it is dead.
func living(owner executor.Owner, known map[core.Process]bool) (groups []int, unknown bool, err error) {
	all, err := proc.All()
	if err != nil {
		return nil, false, err
	}
	session := owner.Leader.PID
	for _, p := range all {
		if p.PID == session && owner.Leader.Start != 0 && owner.Leader.Start != p.Start {
			session = 0 // the executor is gone and its number is another's
		}
	}
	left := map[int]bool{}
	self := syscall.Getpgrp()
	for _, p := range all {
		if p.Dead || p.PID == os.Getpid() || p.Group == self || p.Group <= 1 {
			continue
		}
		id := core.Process{PID: p.PID, Start: p.Start}
		ours, sure := session > 1 && p.Session == session || left[p.Group] || known[id], true
		if !ours {
			ours, sure = startedFor(p, owner)
		}
		if ours {
			left[p.Group], known[id] = true, true
		}
		unknown = unknown || !sure
	}
	return slices.Sorted(maps.Keys(left)), unknown, nil
}

// startedFor tells whether the process was started with the owner's folder in its environment, after the owner. One that
// changes its program has no environment for a moment, and is not known.
func startedFor(p proc.Stat, owner executor.Owner) (ours, known bool) {
	if owner.Sandbox == "" || p.Start < owner.Leader.Start {
		return false, true
	}
	environment, known := proc.Environ(p.PID)
	for variable := range bytes.SplitSeq(environment, []byte{0}) {
		name, value, _ := strings.Cut(string(variable), "=")
		if name != protocol.ExecutorSandboxEnv && name != protocol.TaskSandboxEnv {
			continue
		}
		if value == owner.Sandbox || strings.HasPrefix(value, owner.Sandbox+"/") {
			return true, true
		}
	}
	return false, known
}

// Find returns the process of an earlier agent.
func (l *Launcher) Find(id core.Process) executor.Process {
	if !proc.Alive(id.PID, id.Start) {
		return nil
	}
	return &found{id}
}

// found is a process that is not our child: it is watched, not waited for.
type found struct{ id core.Process }

func (p *found) ID() core.Process { return p.id }

func (p *found) Release() error { return errors.New("it has passed its gate") }

func (p *found) Abandon() {}

func (p *found) Wait(ctx context.Context) (string, bool) {
	if !watch(ctx, p.id) {
		return "", false
	}
	return "it ended; its exit code is unknown, as another agent had started it", true
}
