//go:build !linux

package cell

import "syscall"

// startIn: only Linux has control groups, so this is never reached.
func startIn(*syscall.SysProcAttr, int) {}
