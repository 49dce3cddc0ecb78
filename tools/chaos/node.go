package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// restartAfter is how long a supervisor waits before it restarts a process that ended by itself.
const restartAfter = 300 * time.Millisecond

// hopelessEnds is how often a process may end by itself: a little more often than it can while a disk is full. One that
// ends more often is not started again.
const hopelessEnds = 60

// node is a process that is broken and started again.
type node struct {
	name    string
	binary  string
	args    []string
	dir     string // of the log
	host    *host  // of an agent; nil: the real machine
	proxies []*proxy
	http    string // of a master

	mu      sync.Mutex
	command *exec.Cmd     // guarded by mu
	ended   chan struct{} // guarded by mu
	wanted  bool          // it is restarted when it ends by itself; guarded by mu
	starts  int           // guarded by mu
	itself  int           // how often it ended by itself since we started it; guarded by mu
}

func (n *node) start() error {
	for _, p := range n.proxies {
		if err := p.up(); err != nil {
			return err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	log, err := os.OpenFile(filepath.Join(n.dir, n.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	n.starts++
	n.wanted = true
	fmt.Fprintf(log, "== start %d\n", n.starts)
	command := exec.Command(n.binary, n.args...)
	command.Stdout, command.Stderr = log, log
	command.Dir = n.dir
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it does not get the terminal's Ctrl-C
	if n.host != nil {
		ownMounts(command.SysProcAttr)
	}
	if err := command.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	n.command, n.ended = command, ended
	go func() {
		_ = command.Wait() // its log says why
		_ = log.Close()    // only its content matters
		close(ended)
		<-time.After(restartAfter)
		if n.endedItself(command) {
			_ = n.start() // as its supervisor would; the log tells of errors
		}
	}()
	return nil
}

func (n *node) endedItself(command *exec.Cmd) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.wanted || n.command != command { // it was killed, and may have been started again
		return false
	}
	n.itself++
	return n.itself <= hopelessEnds
}

// forgive forgets how often the process ended by itself while it had no choice.
func (n *node) forgive() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.itself = 0
}

// retire says that the process is not restarted when it ends.
func (n *node) retire() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wanted = false
}

// hopeless says whether the process ends by itself again and again.
func (n *node) hopeless() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.itself > hopelessEnds
}

func (n *node) pid() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.command == nil || n.command.Process == nil {
		return 0
	}
	return n.command.Process.Pid
}

func (n *node) signal(s syscall.Signal) {
	if pid := n.pid(); pid > 0 {
		_ = syscall.Kill(pid, s) // it may have ended already
	}
}

// kill ends the process with a signal and returns when it has ended.
func (n *node) kill(with syscall.Signal) {
	n.mu.Lock()
	n.wanted = false
	ended := n.ended
	n.mu.Unlock()
	if ended == nil {
		return
	}
	for _, p := range n.proxies {
		p.down()
	}
	n.signal(with)
	<-ended
}
