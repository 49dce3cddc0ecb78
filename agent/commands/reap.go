package commands

import (
	"context"
	"syscall"
	"time"
)

// reap is the goroutine that waits for all children: tasks, checks, and orphans of their processes.
func (x *commands) reap() {
	for {
		pid, ok := awaitChild()
		switch {
		case ok:
			x.childEnded(pid)
		case !x.awaitStart():
			return
		}
	}
}

// awaitStart waits until there may be a child again. It returns false if there will be none.
func (x *commands) awaitStart() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for len(x.leaders)+len(x.checks) == 0 && !x.closing {
		x.changed.Wait()
	}
	return len(x.leaders)+len(x.checks) > 0
}

// childEnded reaps a child that has ended. As long as the first process of a group is not reaped, the group's number
// can't be given to another group. So the rest of the group is killed first.
func (x *commands) childEnded(pid int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p, c := x.leaders[pid], x.checks[pid]
	if p != nil || c != nil {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
	var status syscall.WaitStatus
	if !collect(pid, &status) {
		return // it was reaped already, by a start that has failed
	}
	status = x.cells.ended(pid, status)
	switch {
	case p != nil:
		delete(x.leaders, pid)
		p.status = status
		x.leaderGone(p)
	case c != nil:
		x.checkEnded(c, status)
	case x.inFlight > 0:
		x.early[pid] = early{status, x.sequence}
	}
	for p := range x.leftover { // order: irrelevant, at most one has it
		delete(p.strays, pid)
	}
	if len(x.leftover) > 0 {
		x.sweepOnce()
	}
	if x.closing {
		x.endOrphans()
	}
}

// collect reaps a child that has ended, which frees its number.
func collect(pid int, status *syscall.WaitStatus) bool {
	for {
		got, err := syscall.Wait4(pid, status, 0, nil)
		if err != syscall.EINTR {
			return err == nil && got == pid
		}
	}
}

// leaderGone ends a task whose first process has ended, or has the rest of the task looked for until it is gone. Under
// mu.
func (x *commands) leaderGone(p *process) {
	if x.restGone(p) {
		x.end(p, p.outcome())
		return
	}
	x.leftover[p] = true
	select {
	case x.sweeping <- struct{}{}:
	default:
	}
}

// restGone kills what a task whose first process has ended has left running, and reports whether nothing is left. That
// concerns the processes of its group, and those that have left the group and become orphans, such as daemons. Orphans
// are our children, as their parents are dead, and their environment tells to which task they belong. An orphan that
// was killed counts until it is reaped, because before that its own children may not be ours yet. (R11) Under mu, so
// that no process number is given to another process meanwhile.
func (x *commands) restGone(p *process) bool {
	if c := p.check; c != nil && c.pid != 0 {
		_ = syscall.Kill(-c.pid, syscall.SIGKILL)
	}
	switch {
	case p.cell != nil:
		return x.cellGone(p) && p.check == nil
	case p.pid == 0: // the task was never started
		return true
	}
	left := p.check != nil || groupLeft(p.pid) || p.fading != 0 && groupLeft(p.fading)
	for _, pid := range orphans() {
		if x.leaders[pid] != nil || x.checks[pid] != nil {
			continue
		}
		switch of := kinOf(pid, p.task.Sandbox); {
		case p.strays[pid] || of == kin:
			if p.strays == nil {
				p.strays = map[int]bool{}
			}
			p.strays[pid] = true
			_ = syscall.Kill(pid, syscall.SIGKILL)
			left = true
		case of == dying && (x.inFlight == 0 || !mayBeFirst(pid)): // its children may belong to the task, and may not be ours yet
			left = true
		}
	}
	return !left
}

// kinship says whether an orphan belongs to a task.
type kinship uint8

const (
	stranger kinship = iota
	kin
	dying // its environment can't be read any more
)

// endOrphans kills all orphans of this executor's tasks, so that none outlives the executor. Under mu.
func (x *commands) endOrphans() {
	for _, pid := range orphans() {
		if x.leaders[pid] == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// sweepOnce ends those tasks in leftover of which nothing is left by now. Under mu.
func (x *commands) sweepOnce() {
	for p := range x.leftover { // order: irrelevant because tasks do not depend on each other
		if x.restGone(p) {
			delete(x.leftover, p)
			x.end(p, p.outcome())
		}
	}
}

const (
	sweepPauseMin = 5 * time.Millisecond
	sweepPauseMax = time.Second
)

// sweep looks again and again at tasks of which something is left, until nothing is. Not every process that was killed
// is our child, so the kernel does not tell us when it is gone.
func (x *commands) sweep(ctx context.Context) {
	pause := sweepPauseMin
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-x.sweeping:
			pause = sweepPauseMin
		case <-timer.C:
			pause = min(2*pause, sweepPauseMax)
		}
		x.mu.Lock()
		x.sweepOnce()
		left := len(x.leftover)
		x.mu.Unlock()
		if left > 0 {
			timer.Reset(pause)
		}
	}
}
