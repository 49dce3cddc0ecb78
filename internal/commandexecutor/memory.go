package commandexecutor

import (
	"context"
	"syscall"
	"time"

	"github.com/tenderhq/tender/agent/walls/cell"
)

// killsSingly tells whether the kernel kills one process of a task that needs too much memory, and not all of it: only
// version 2 of control groups can do that.
func (c *cells) killsSingly() bool {
	return c != nil && c.Cell.Grade != cell.Cgroup2 && c.Cell.Memory != ""
}

// memoryPause is how long a task lives on, at most, of which the kernel has killed a part. There is no word of that but
// in a file of each task, which takes 10 us to read; notices of version 1 come also for each task that ends well.
const memoryPause = 500 * time.Millisecond

// watchMemory ends tasks of which the kernel has killed a process for want of memory: what is left would wait for it, or
// go on without it.
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

// running are the tasks with cells whose first process lives.
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

// endStarved kills what is left of a task. That it was for want of memory is what its end will tell, unless that was
// asked for before.
func (x *commands) endStarved(p *process, reached cell.Reached) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.leaders[p.pid] != p {
		return // it has ended meanwhile, and is judged by how
	}
	p.judged, p.limit = true, reached
	_ = p.cell.Kill() // what is left when the first process has ended is killed again
	_ = syscall.Kill(-p.pid, syscall.SIGKILL)
}
