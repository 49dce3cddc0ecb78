package main

import "syscall"

// ofOurs is set for every child process: it does not get the terminal's Ctrl-C, and it dies with us, even if we are
// killed with SIGKILL.
func ofOurs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
