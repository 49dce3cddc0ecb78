package devcluster

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// Process is a program that can be killed and started again.
type Process struct {
	Binary string
	Args   []string
	Log    string // the file for its output

	command *exec.Cmd     // nil: it was not started, or was stopped
	ended   chan struct{} // closed when the command has ended
	result  error         // the result of the command, once it has ended
}

// Start starts the program; after Kill it can be started again.
func (p *Process) Start() error {
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the program has its own descriptor
	command := exec.Command(p.Binary, p.Args...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it does not get the terminal's Ctrl-C
	if err := command.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	p.command, p.ended = command, ended
	go func() {
		p.result = command.Wait()
		close(ended)
	}()
	return nil
}

// Ended returns a channel that is closed when the program that was started last has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Kill ends the program with SIGKILL and returns when it has ended.
func (p *Process) Kill() error {
	if p.command == nil {
		return nil
	}
	if err := p.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.ended
	p.command = nil
	return nil
}

// PID returns the program's process ID; 0: it does not run.
func (p *Process) PID() int {
	if p.command == nil {
		return 0
	}
	return p.command.Process.Pid
}

// Stop asks the program to end and returns when it has.
func (p *Process) Stop() error {
	if p.command == nil {
		return nil
	}
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.ended
	p.command = nil
	return p.result
}
