package dev

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

const (
	tasksPoll = 10 * time.Millisecond
	// tasksEndMax is how long executors and tasks may take to end after their agents. The grace of a kill is 5 s.
	tasksEndMax = 8 * time.Second
	// killedEndMax is how long they may take after SIGKILL.
	killedEndMax = 2 * time.Second
)

// awaitTasks waits until no process is left that one of our agents has started. Executors end by themselves when their
// agent does, except where they are to outlive it; those that do not are killed.
func (h *house) awaitTasks(ctx context.Context) {
	if h.config.Chaos == nil && h.awaitNone(ctx, tasksEndMax) {
		return
	}
	for _, pid := range startedBelow(h.cluster.Dir) {
		if h.config.Chaos == nil {
			h.config.Say("process %d did not end; killing it", pid)
		}
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended already
	}
	h.awaitNone(ctx, killedEndMax)
}

func (h *house) awaitNone(ctx context.Context, longest time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	tick := time.NewTicker(tasksPoll)
	defer tick.Stop()
	for len(startedBelow(h.cluster.Dir)) > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// removeAll removes the folder, even if something is written into it meanwhile.
func removeAll(dir string) (err error) {
	for range 5 {
		if err = os.RemoveAll(dir); err == nil || !errors.Is(err, syscall.ENOTEMPTY) {
			return err
		}
	}
	return err
}
