package commands

import (
	"context"
	"syscall"
	"time"

	"github.com/tenderhq/tender/agent/walls/cell"
)

// killsSingly reports whether the kernel kills only one process of a task that needs too much memory. Only with version
// 2 of control groups can it kill all processes of the task together.
func (c *cells) killsSingly() bool {
	return c != nil && c.Cell.Grade != cell.Cgroup2 && c.Cell.Memory != ""
}

// memoryPause is the time between two looks at whether the kernel has killed a process of a task. So the rest of such a
// task lives on for that long at most. To look takes 10 us for each task, to read a file. The notifications of version
// 1 are no better, as they come for each task that ends well, too.
const memoryPause = 500 * time.Millisecond

// watchMemory ends tasks of which the kernel has killed a process for want of memory. The rest of such a task would
// wait for that process, or go on without it.
func (x *commands) watchMemory(ctx context.Context) {
	ticker := time.NewTicker(memoryPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, p := range x.running() {
			if reached, err := p.cell.Reached(); err == nil && reached.Memory {
				x.endStarved(p, reached)
			}
		}
	}
}

// running returns the tasks with cells whose first process lives.
func (x *commands) running() (all []*process) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range x.leaders { // order: irrelevant because each is looked at for itself
		if p.cell != nil && !p.judged {
			all = append(all, p)
		}
	}
	return all
}

// endStarved kills what is left of a task whose memory was short. The report of its end will say so, unless the agent
// had asked for its end before.
func (x *commands) endStarved(p *process, reached cell.Reached) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.leaders[p.pid] != p {
		return // it has ended meanwhile, and is reported by how it ended
	}
	p.judged, p.limit = true, reached
	_ = p.cell.Kill() // what is left when the first process has ended is killed again
	_ = syscall.Kill(-p.pid, syscall.SIGKILL)
}
