package cell

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/tenderhq/tender/agent/walls/birth"
)

// Join moves a process into the cell, with all its threads. A group that it is in already is left alone: for a process
// that does not move itself the kernel first waits until nothing on the machine forks, for some 10 ms.
func (c Cell) Join(pid int) error {
	for _, folder := range c.folders() {
		if slices.Contains(readProcesses(folder), pid) {
			continue
		}
		if err := write(folder, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	return nil
}

// Spared says how likely the kernel is to kill a process when the machine has no memory left. It is the oom_score_adj
// of proc(5): the higher, the more likely.
type Spared int

// Tasks are killed before executors, and tasks with revocable resources before other tasks. The agent itself is spared
// by its systemd unit.
const (
	ExecutorSpared Spared = -500
	FirmTask       Spared = 0
	RevocableTask  Spared = 500
)

// Spare tells the kernel how likely it is to kill the process. If this process lacks the right to that, or the kernel
// has no such setting, nothing changes.
func Spare(pid int, how Spared) {
	_ = write("/proc/"+strconv.Itoa(pid), "oom_score_adj", strconv.Itoa(int(how)))
}

// Start prepares that the process which the calling thread starts next, with attr, is in the cell from its first
// instruction on. With version 2 the kernel makes the child there. With version 1 the thread itself moves into the
// cell, and its children start where it is. The thread must be locked to its goroutine, and end with it. closing closes
// the file descriptor that attr then refers to.
func (c Cell) Start(attr *syscall.SysProcAttr) (closing func(), err error) {
	groups, closing, err := c.Groups(nil)
	if err != nil {
		return nil, err
	}
	if err := Entrance(groups.Entrance).Enter(); err != nil {
		closing()
		return nil, err
	}
	if groups.Folder > 0 {
		startIn(attr, groups.Folder)
	}
	return closing, nil
}

// Groups returns the cell's groups for a child that enters them itself, and a function that closes what was opened for
// that. in is the cell's entrance; nil: it is opened, too.
func (c Cell) Groups(in Entrance) (groups birth.Groups, closing func(), err error) {
	var opened Entrance
	if in == nil {
		if in, err = c.Entrance(); err != nil {
			return groups, nil, err
		}
		opened = in
	}
	groups.Entrance = in
	if c.Unified == "" {
		return groups, opened.Close, nil
	}
	if groups.Folder, err = open(c.Unified, syscall.O_RDONLY|syscall.O_DIRECTORY); err != nil {
		opened.Close()
		return groups, nil, failed("open", c.Unified, err)
	}
	return groups, append(Entrance{groups.Folder}, opened...).Close, nil
}

// Ways returns how a process gets into the cell by itself: the files of version 1 to which it writes 0, and the folder
// of version 2 in which the kernel makes it, "" if there is none.
func (c Cell) Ways() (files []string, folder string) {
	for _, folder := range c.folders() {
		if folder != c.Unified {
			files = append(files, filepath.Join(folder, "tasks"))
		}
	}
	return files, c.Unified
}

// Entrance holds the files of a cell's groups of version 1 open by which threads enter. It is used again and again,
// because to open such a file takes several times as long as to write to it.
type Entrance []int

// Entrance opens the cell's entrance. Where there is no version 1 it is nil.
func (c Cell) Entrance() (Entrance, error) {
	var in Entrance
	for _, folder := range c.folders() {
		if folder == c.Unified {
			continue
		}
		descriptor, err := openFile(folder, "tasks", syscall.O_WRONLY)
		if err != nil {
			in.Close()
			return nil, err
		}
		in = append(in, descriptor)
	}
	return in, nil
}

// Enter moves the calling thread into the cell's groups of version 1.
func (in Entrance) Enter() error {
	for _, descriptor := range in {
		if err := writeTo(descriptor, "0"); err != nil { // the writing thread itself, which the kernel moves without a lock
			return os.NewSyscallError("write", err)
		}
	}
	return nil
}

// Close closes the entrance.
func (in Entrance) Close() {
	for _, descriptor := range in {
		_ = syscall.Close(descriptor) // what was written has been heard of
	}
}
