package cell

import "syscall"

// startIn has the kernel put a child into an open folder of version 2.
func startIn(attr *syscall.SysProcAttr, folder int) {
	attr.UseCgroupFD, attr.CgroupFD = true, folder
}
