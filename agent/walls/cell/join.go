package cell

import (
	"path/filepath"
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

// Spared is how likely the kernel chooses a process when the machine has no memory left.
type Spared int

// The kinds: executors are spared as long as there is a task, and tasks that may be taken back anyway go first. The agent
// is spared by its unit.
const (
	ExecutorSpared Spared = -500
	FirmTask       Spared = 0
	RevocableTask  Spared = 500
)

// Spare tells the kernel. Without the right to it, and where there is no such thing, all stays as it is.
func Spare(pid int, how Spared) {
	_ = write("/proc/"+strconv.Itoa(pid), "oom_score_adj", strconv.Itoa(int(how)))
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

// Ways say how a process gets into the cell by itself: the files of version 1 to which it writes 0, and the folder of
// version 2 in which the kernel makes it, if there is one.
func (c Cell) Ways() (files []string, folder string) {
	for _, one := range c.folders() {
		if one != c.Unified {
			files = append(files, filepath.Join(one, "tasks"))
		}
	}
	return files, c.Unified
}

// Home is where this process itself is, for [Cell.Return] from cells that are made like this one.
func (c Cell) Home() (Cell, error) {
	hierarchies, err := readHierarchies("/proc")
	if err != nil {
		return Cell{}, err
	}
	home, _ := grow(c.Grade, hierarchies)
	if c.Devices != "" {
		home = home.addDevices(hierarchies)
	}
	return home, nil
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
