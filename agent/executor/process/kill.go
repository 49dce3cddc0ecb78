package process

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/executor"
	"github.com/tenderhq/tender/agent/proc"
)

// KillAll sends SIGKILL until nothing is left. The dead that nobody reaps count as gone:
// they run nothing and hold nothing.
func (l *Launcher) KillAll(ctx context.Context, leader core.Process, groups []core.Process) error {
	const pauseMax = 50 * time.Millisecond
	for pause := time.Millisecond; ; pause = min(2*pause, pauseMax) {
		left, err := living(leader, groups)
		if err != nil || len(left) == 0 {
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

// Kill sends SIGKILL to one process group.
func (l *Launcher) Kill(group core.Process) error {
	left, err := living(core.Process{}, []core.Process{group})
	if err != nil {
		return err
	}
	for _, group := range left {
		err = errors.Join(err, signal(group))
	}
	return err
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

// living lists the process groups with living members of the leader's session and of
// the given groups. A number that the kernel has given to somebody else since is left
// alone: it does so only after the last of ours is gone.
func living(leader core.Process, groups []core.Process) ([]int, error) {
	all, err := proc.All()
	if err != nil {
		return nil, err
	}
	ours := map[int]uint64{}
	for _, group := range groups {
		ours[group.PID] = group.Start
	}
	session := leader.PID
	if session > 0 {
		ours[session] = leader.Start
	}
	for _, p := range all {
		if start, named := ours[p.PID]; named && start != 0 && start != p.Start {
			delete(ours, p.PID)
			if p.PID == session {
				session = 0
			}
		}
	}
	delete(ours, 0)
	delete(ours, 1)
	left := map[int]bool{}
	self := syscall.Getpgrp()
	for _, p := range all {
		_, named := ours[p.Group]
		if !p.Dead && p.PID != os.Getpid() && p.Group != self && p.Group > 1 && (named || session > 1 && p.Session == session) {
			left[p.Group] = true
		}
	}
	return slices.Sorted(maps.Keys(left)), nil
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
