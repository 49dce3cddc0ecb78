package main

import "syscall"

// ofOurs is what every child process is started with: Ctrl-C is ours to pass
// on, and it dies with us, even of a kill -9.
func ofOurs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
