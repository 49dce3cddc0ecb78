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

// KillAll sends SIGKILL until no process of the owner is left. Zombies count as gone: they run nothing and hold
// nothing. The processes are those in the owner's cell. If the owner has no cell, as it was started when there were
// none, or if it still lives when its cell is empty, as somebody has moved it out, they are looked for in the table of
// processes.
func (l *Launcher) KillAll(ctx context.Context, owner executor.Owner) (walls.End, error) {
	end, found, err := l.Cells.Clear(ctx, owner.Executor)
	if found && (err != nil || !proc.Alive(owner.Leader.PID, owner.Leader.Start)) {
		return end, err
	}
	return end, killListed(ctx, owner)
}

// killListed kills the owner's processes that it finds in the table of processes, until it finds none.
func killListed(ctx context.Context, owner executor.Owner) error {
	// A process that executes another program has no environment for a moment, and so it is not known whether it is the
	// owner's. One that does so again and again is still found by one of many looks. A process that has no environment
	// for five seconds is held up within that moment, as by a disk that does not answer. It may be anybody's, and is
	// not waited for.
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

// Kill sends SIGKILL to the processes in a task's cell, or, if it has none, to its process group, if that is the
// owner's.
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

// visible reports whether a process of the group is alive. Darwin answers EPERM for a group in which none is.
func visible(group int) bool {
	all, err := proc.All()
	return err != nil || slices.ContainsFunc(all, func(p proc.Stat) bool { return p.Group == group && !p.Dead })
}

// living returns the numbers of the owner's process groups that have living members. If the leader's number belongs to
// another process by now, the session of that number is left alone: the kernel gives the number away only after the
// last process of ours is gone. unknown says that there may be more, whose environment can't be read just now. known
// holds the processes that earlier calls have found, and living adds to it: a process that is being killed loses its
// environment before it is dead.
func living(owner executor.Owner, known map[core.Process]bool) (groups []int, unknown bool, err error) {
	all, err := proc.All()
	if err != nil {
		return nil, false, err
	}
	session := owner.Leader.PID
	for _, p := range all {
		if p.PID == session && owner.Leader.Start != 0 && owner.Leader.Start != p.Start {
			session = 0 // the executor is gone, and its number belongs to another process
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

// startedFor reports whether the process was started after the owner, with the owner's folder in its environment. known
// is false if the environment can't be read, as for a moment while a process executes another program.
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

// Find returns a process that an earlier process of the agent has started; nil if it is gone.
func (l *Launcher) Find(id core.Process) executor.Process {
	if !proc.Alive(id.PID, id.Start) {
		return nil
	}
	return &found{id}
}

// found is a process that is not our child, so it can't be waited for, only watched.
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
