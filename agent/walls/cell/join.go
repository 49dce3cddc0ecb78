package cell

import (
	"strconv"
	"syscall"
)

// Join puts a process into the cell, with all its threads.
func (c Cell) Join(pid int) error {
	for _, folder := range c.folders() {
		if err := write(folder, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	return nil
}

// Start has what the calling thread starts next be in the cell from its first instruction on: with version 2 the kernel
// puts the child there when it makes it, with version 1 the thread goes in itself, and its children are where it is. The
// thread must be locked to its goroutine, and goes home by Leave before it does anything else.
// What attr then names is closed by close.
func (c Cell) Start(attr *syscall.SysProcAttr) (closing func(), err error) {
	for _, folder := range c.folders() {
		if folder == c.Unified {
			continue
		}
		if err := write(folder, "tasks", "0"); err != nil { // 0 is who writes, which the kernel does without a lock
			return nil, err
		}
	}
	if c.Unified == "" {
		return func() {}, nil
	}
	descriptor, err := open(c.Unified, syscall.O_RDONLY|syscall.O_DIRECTORY)
	if err != nil {
		return nil, failed("open", c.Unified, err)
	}
	startIn(attr, descriptor)
	return func() { syscall.Close(descriptor) }, nil //nolint:errcheck // nothing was written
}

// Return brings the calling thread back to this cell, its process's own, from where Start has sent it. If
// that fails the thread is not to be used any more.
func (c Cell) Return() error {
	for _, folder := range c.folders() {
		if folder == c.Unified {
			continue
		}
		if err := write(folder, "tasks", "0"); err != nil {
			return err
		}
	}
	return nil
}
