package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/executor"
)

// check is a command that finds out whether a task is healthy. It has a process group of its own. It belongs to the
// task: it runs in the task's sandbox and environment, and the task has not ended before the check is gone. (R11)
type check struct {
	of    *process
	pid   int                     // of its first process and its process group; 0: not started
	ended chan syscall.WaitStatus // capacity 1
}

const (
	// checkOutputMax is how many bytes of a check's output are kept, to say why it failed. The rest is read and
	// dropped.
	checkOutputMax = 512
	// checkOutputPatience is how long the end of the output is awaited when the check has ended. Only a process that
	// has left the check's group can hold it open.
	checkOutputPatience = 50 * time.Millisecond
)

var errNotRunning = errors.New("the task runs no more")

// probe makes a check of a running task, and returns what it has found, and why it failed, or nil. If the task has ended
// meanwhile the check says nothing about its health: probe then waits until the context ends, which it does with the
// report of the task's end.
func (x *commands) probe(ctx context.Context, task *executor.Task, how api.Check) (found api.CheckResult, err error) {
	if how.Command != nil {
		found, err = x.runCheck(ctx, task, how.Command)
	} else {
		found, err = executor.ProbeChecks(ctx, task, how)
	}
	if err != nil && !x.runs(task.ID) {
		<-ctx.Done()
		return found, errNotRunning
	}
	return found, err
}

// runs reports whether the first process of a task lives.
func (x *commands) runs(id api.TaskID) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.tasks[id]
	return p != nil && x.leaders[p.pid] == p
}

// runCheck runs the command of a check to its end.
func (x *commands) runCheck(ctx context.Context, task *executor.Task, command *api.Command) (found api.CheckResult, err error) {
	found.Kind = "command"
	output, input, err := os.Pipe()
	if err != nil {
		return found, err
	}
	defer output.Close()
	c, err := x.startCheck(task, command, input)
	_ = input.Close()
	if err != nil {
		return found, err
	}
	said := make(chan string, 1)
	go func() { said <- readStart(output) }() // ends with the output, or at its deadline
	var status syscall.WaitStatus
	select {
	case status = <-c.ended:
	case <-ctx.Done():
		x.killCheck(c)
		status = <-c.ended
	}
	_ = output.SetReadDeadline(time.Now().Add(checkOutputPatience))
	if status.Exited() {
		found.Known, found.Code, found.Passed = true, status.ExitStatus(), status.ExitStatus() == 0
	}
	return found, judgeCheck(status, <-said)
}

// judgeCheck returns why a check with this status and output has failed; nil if it has passed.
func judgeCheck(status syscall.WaitStatus, said string) error {
	why := fmt.Sprintf("exited with %d", status.ExitStatus())
	switch {
	case status.Signaled():
		why = fmt.Sprintf("ended by signal %d (%v)", int(status.Signal()), status.Signal())
	case status.ExitStatus() == 0:
		return nil
	}
	if said != "" {
		why += ": " + said
	}
	return errors.New(why)
}

// readStart reads the output to its end, and returns its first line, of which it keeps checkOutputMax bytes at most.
func readStart(output io.Reader) string {
	var start strings.Builder
	_, _ = io.CopyN(&start, output, checkOutputMax)
	_, _ = io.Copy(io.Discard, output)
	line, _, _ := strings.Cut(strings.TrimSpace(start.String()), "\n")
	return line
}

// startCheck starts the command of a check beside its task.
func (x *commands) startCheck(task *executor.Task, command *api.Command, output *os.File) (*check, error) {
	like := *task
	like.Command = &api.Command{Argv: command.Argv, Shell: command.Shell, Env: map[string]string{}}
	if task.Command != nil {
		maps.Copy(like.Command.Env, task.Command.Env)
		like.Command.Dir = task.Command.Dir
	}
	maps.Copy(like.Command.Env, command.Env)
	program, err := programBeside(&like)
	if err != nil {
		return nil, err
	}
	c, sequence := x.beginCheck(task.ID)
	if c == nil {
		return nil, errNotRunning
	}
	pid, err := x.cells.startBeside(c.of, program, files{x.null.Fd(), output.Fd(), output.Fd()})
	x.checkStarted(c, sequence, pid, err)
	return c, err
}

// beginCheck notes that a check of the task is being started; nil: the task is not to be checked.
func (x *commands) beginCheck(id api.TaskID) (*check, uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.tasks[id]
	if p == nil || p.pid == 0 || x.leaders[p.pid] != p || p.killed || p.check != nil || x.closing {
		return nil, 0
	}
	p.check = &check{of: p, ended: make(chan syscall.WaitStatus, 1)}
	x.inFlight++
	x.sequence++
	return p.check, x.sequence
}

// checkStarted notes a check's process. The process may have ended already, and so may its task.
func (x *commands) checkStarted(c *check, sequence uint64, pid int, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	early, found := x.landed(pid)
	if err != nil {
		c.of.check = nil
		return
	}
	c.pid = pid
	if found && early.sequence >= sequence {
		x.checkEnded(c, early.status)
		return
	}
	x.checks[pid] = c
	if x.leaders[c.of.pid] != c.of {
		c.kill()
	}
	x.changed.Broadcast()
}

// checkEnded passes on the end of a check whose first process was reaped. Under mu.
func (x *commands) checkEnded(c *check, status syscall.WaitStatus) {
	delete(x.checks, c.pid)
	c.of.check, c.of.fading = nil, 0
	if groupLeft(c.pid) { // all of it was killed, and is not gone yet
		c.of.fading = c.pid
	}
	c.ended <- status
}

// groupLeft reports whether a process of the group is left.
func groupLeft(group int) bool { return syscall.Kill(-group, 0) != syscall.ESRCH }

// killCheck kills a check that takes too long.
func (x *commands) killCheck(c *check) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.checks[c.pid] == c {
		c.kill()
	}
}

// kill kills all processes of the check. If it has a helper, the helper does that at SIGTERM, and then ends itself.
func (c *check) kill() {
	how := syscall.SIGKILL
	if c.of.helped {
		how = syscall.SIGTERM
	}
	_ = syscall.Kill(-c.pid, how)
}
