package devcluster

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
)

// Process is a program that is killed and started again.
type Process struct {
	Binary string
	Args   []string
	Log    string // file for all that it says

	command *exec.Cmd     // nil: it was not started, or was stopped
	ended   chan struct{} // closed when the command has ended
	result  error         // of the command; once it has ended
}

// Start starts the program, once more after Kill.
func (p *Process) Start() error {
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the program has its own
	command := exec.Command(p.Binary, p.Args...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is ours to pass on
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

// Ended is closed when the program that was started last has ended, by itself or not.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Kill ends the program without a warning and returns when it is gone.
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

// PID is the program's process; 0: it does not run.
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

// FreePorts are below those that the kernel gives to outgoing connections and those that
// `tender dev` looks for: either could take the port of a program that is down.
func FreePorts(n int) (ports []int, err error) {
	for port := 10000 + os.Getpid()%900*10; len(ports) < n && port < 20000; port++ {
		listener, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			continue
		}
		ports = append(ports, port)
		if err := listener.Close(); err != nil {
			return nil, err
		}
	}
	if len(ports) < n {
		return nil, errors.New("no free ports")
	}
	return ports, nil
}
