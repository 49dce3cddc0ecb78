//go:build !linux

package main

import "syscall"

func ofOurs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
