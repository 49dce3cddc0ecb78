package commandexecutor

import (
	"context"
	"syscall"
	"time"
)

// reap is the goroutine that waits for children, one for all of them: tasks, and what
// their processes have orphaned.
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

// awaitStart waits until there may be a child again; false: there will be none.
func (x *commands) awaitStart() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for len(x.leaders)+len(x.checks) == 0 && !x.closing {
		x.changed.Wait()
	}
	return len(x.leaders)+len(x.checks) > 0
}

// childEnded reaps a child. While the first process of a group is not reaped, the
// group's number can't become another's: only until then is killing the rest safe.
func (x *commands) childEnded(pid int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p, c := x.leaders[pid], x.checks[pid]
	if p != nil || c != nil {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
	var status syscall.WaitStatus
	if !collect(pid, &status) {
		return // someone else did: a start that has failed
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

// collect takes the status of a child that has ended, which frees its number.
func collect(pid int, status *syscall.WaitStatus) bool {
	for {
		got, err := syscall.Wait4(pid, status, 0, nil)
		if err != syscall.EINTR {
			return err == nil && got == pid
		}
	}
}

// leaderGone ends the task, or waits for the rest of it. Under mu.
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

// restGone kills what a task whose first process has ended left running and tells whether nothing is left: neither in
// its group, nor of those that left the group and became orphans, daemons for example. These are our children since
// their parents are dead; whose they are, their environment tells. One that was killed counts until it is reaped: before
// that its own children may not be ours yet. (R11.) Under mu, so that no number is given to another meanwhile.
func (x *commands) restGone(p *process) bool {
	if c := p.check; c != nil && c.pid != 0 {
		_ = syscall.Kill(-c.pid, syscall.SIGKILL)
	}
	switch {
	case p.cell != nil:
		return x.cellGone(p) && p.check == nil
	case p.pid == 0: // it was never started
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
		case of == dying && (x.inFlight == 0 || !mayBeFirst(pid)): // its children may be the task's, and not ours yet
			left = true
		}
	}
	return !left
}

// kinship is whose an orphan is.
type kinship uint8

const (
	stranger kinship = iota
	kin
	dying // it can't be asked any more
)

// endOrphans kills all that the tasks of this executor have orphaned: nobody is to outlive it. Under mu.
func (x *commands) endOrphans() {
	for _, pid := range orphans() {
		if x.leaders[pid] == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// sweepOnce ends the tasks of which the rest has gone meanwhile. Under mu.
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

// sweep looks again at tasks of which something is left, until nothing is: not every
// process that was killed is our child, so no one tells us when it is gone.
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
