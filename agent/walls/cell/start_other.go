//go:build !linux

package cell

import "syscall"

// startIn is never called: only Linux has control groups.
func startIn(*syscall.SysProcAttr, int) {}
