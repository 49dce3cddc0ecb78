package dev

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/tenderhq/tender/internal/pause"
)

// childEndMax is how long a child may take to end before it is killed.
const childEndMax = 10 * time.Second

// restartMax is the longest pause before a child that ended is started again. The first pause is Config.Restart; each
// further one is twice as long, until a child has lived for this long.
const restartMax = 10 * time.Second

// process is a master or an agent that is a child.
type process struct {
	name string
	args []string
	pid  *int // in the description of the cluster; guarded by the house's mu
	held bool // it is not started again for now; guarded by the house's mu
}

// child is one life of a process.
type child struct {
	command *exec.Cmd
	stdin   io.Closer
	ended   chan struct{}
	err     error // of its end; once ended is closed
}

// startProcess starts a master or an agent as a child. When the child ends before ctx does, it is started again if the
// cluster heals.
func (h *house) startProcess(ctx context.Context, floor *sync.WaitGroup, p *process) error {
	h.children[p.pid] = p
	first, err := h.startChild(floor, p)
	if err != nil {
		return err
	}
	floor.Go(func() { h.keepRunning(ctx, floor, p, first) })
	return nil
}

// startChild starts a child. It ends when its standard input does, so also when this process is killed: no signal of
// ours has to reach it.
func (h *house) startChild(floor *sync.WaitGroup, p *process) (*child, error) {
	command := exec.Command(h.config.Binary, p.args...)
	command.Stderr = os.Stderr
	// It has its own group: a Ctrl-C of the terminal reaches us, and we end the cluster in order.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	h.mu.Lock()
	*p.pid = command.Process.Pid
	h.mu.Unlock()
	c := &child{command: command, stdin: stdin, ended: make(chan struct{})}
	floor.Go(func() {
		defer close(c.ended)
		c.err = command.Wait()
	})
	return c, nil
}

// keepRunning waits for the end of a child, and starts it again, until ctx ends; then it ends the child.
func (h *house) keepRunning(ctx context.Context, floor *sync.WaitGroup, p *process, c *child) {
	wait := h.config.Restart
	for began := time.Now(); ; began = time.Now() {
		select {
		case <-c.ended:
		case <-ctx.Done():
			c.end()
			return
		}
		// Somebody may have killed it on purpose, to see what happens: the others go on.
		h.config.Say("%s (process %d) ended: %v", p.name, c.command.Process.Pid, orExited(c.err))
		if h.config.Restart == 0 {
			return
		}
		if time.Since(began) > restartMax {
			wait = h.config.Restart
		}
		for c = nil; c == nil; wait = min(2*wait, restartMax) {
			if !pause.For(ctx, wait) {
				return
			}
			if h.isHeldBack(p) {
				wait = h.config.Restart / 2
				continue
			}
			var err error
			if c, err = h.startChild(floor, p); err != nil {
				h.config.Say("%s can't be started again: %v", p.name, err)
			}
		}
		h.config.Say("%s is started again (process %d)", p.name, c.command.Process.Pid)
		if err := h.writeDescription(); err != nil {
			h.config.Say("%s does not tell the new process: %v", JSONFile, err)
		}
	}
}

// holdBack says whether a process that ends is to stay away for now.
func (h *house) holdBack(p *process, held bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p.held = held
}

func (h *house) isHeldBack(p *process) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return p.held
}

func (h *house) pidOf(p *process) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return *p.pid
}

// writeDescription writes dev.json anew, if it is there.
func (h *house) writeDescription() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.described {
		return nil
	}
	return writeJSON(filepath.Join(h.cluster.Dir, JSONFile), h.cluster)
}

// end ends the child, and kills it if it takes too long.
func (c *child) end() {
	_ = c.stdin.Close() // it may have ended already
	select {
	case <-c.ended:
	case <-time.After(childEndMax):
		_ = c.command.Process.Kill() // it may have ended already
	}
}

func orExited(err error) any {
	if err == nil {
		return "exit status 0"
	}
	return err
}
