package dev

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// childEndMax is how long a child may take to end before it is killed.
const childEndMax = 10 * time.Second

// startProcess starts a master or an agent as a child and returns its PID. The child ends when its standard input does,
// so also when this process is killed: no signal of ours has to reach it.
func (h *house) startProcess(ctx context.Context, floor *sync.WaitGroup, name string, args []string) (int, error) {
	child := exec.Command(h.config.Binary, args...)
	child.Stderr = os.Stderr
	// It has its own group: a Ctrl-C of the terminal reaches us, and we end the cluster in order.
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := child.StdinPipe()
	if err != nil {
		return 0, err
	}
	if err := child.Start(); err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	ended := make(chan struct{})
	floor.Go(func() {
		defer close(ended)
		err := child.Wait()
		if ctx.Err() == nil {
			// Somebody may have killed it on purpose, to see what happens: the others go on.
			h.config.Say("%s (process %d) ended: %v", name, child.Process.Pid, orExited(err))
		}
	})
	floor.Go(func() {
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		_ = stdin.Close() // it may have ended already
		timer := time.NewTimer(childEndMax)
		defer timer.Stop()
		select {
		case <-ended:
		case <-timer.C:
			_ = child.Process.Kill() // it may have ended already
		}
	})
	return child.Process.Pid, nil
}

func orExited(err error) any {
	if err == nil {
		return "exit status 0"
	}
	return err
}
