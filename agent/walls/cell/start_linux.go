package cell

import "syscall"

// startIn has the kernel make a child in the group of version 2 whose folder is open as folder.
func startIn(attr *syscall.SysProcAttr, folder int) {
	attr.UseCgroupFD, attr.CgroupFD = true, folder
}
