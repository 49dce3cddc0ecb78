// Package cell holds processes together in control groups of the kernel. A cell is one group: a process that is put
// into it stays in it with all that it starts. A cell has limits, is killed whole by one write, and tells when it is
// empty. Cells are nested: an agent has one, each of its executors has one below it, and each task of the built-in
// executor has one below that. The name of a cell follows from IDs alone, so an agent that comes back finds it whatever
// became of process numbers.
//
// The package does not decide which limits a task has, nor what its end is called. It never leaves a process of a cell
// alive and says that the cell is empty (R41).
//
// There are libraries for these files (containerd/cgroups, opencontainers/cgroups). Neither serves here: where version
// 1 has the controllers, as on many machines, we limit by version 1 and kill by version 2, which they do not; and they
// bring dbus, eBPF and a log of their own into a process that starts a thousand tasks a second.
package cell

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
)

// Grade says which control groups there are.
type Grade string

// The grades, best first.
const (
	// Cgroup2 limits and kills by version 2. It needs Linux 5.14.
	Cgroup2 Grade = "cgroup2"
	// Hybrid limits by version 1 and kills by version 2, which is mounted beside it.
	Hybrid Grade = "hybrid"
	// Cgroup1 has version 1 alone: a cell is killed process by process.
	Cgroup1 Grade = "cgroup1"
	// Groups has none that we may use: what belongs together is told by process groups, sessions and environments.
	Groups Grade = "groups"
)

// Cell is a control group: its folder in each hierarchy that is used, "" where there is none. With Cgroup2 all of them
// are the same one. Whether it exists is the kernel's to say, so a value may be kept and compared.
type Cell struct {
	Grade Grade `json:"grade"`
	// Unified is the folder of version 2, by which a cell is killed.
	Unified string `json:"unified,omitempty"`
	CPU     string `json:"cpu,omitempty"`
	Memory  string `json:"memory,omitempty"`
	Pids    string `json:"pids,omitempty"`
	IO      string `json:"io,omitempty"`
	// Devices says which devices may be used, where there are some to be kept from others.
	Devices string `json:"devices,omitempty"`
	// Account measures processor time where Unified does not.
	Account string `json:"account,omitempty"`
}

// Child is the cell of that name in this one.
func (c Cell) Child(name string) Cell {
	return c.move(func(folder string) string { return filepath.Join(folder, name) })
}

// move is the cell whose folders are elsewhere.
func (c Cell) move(where func(folder string) string) Cell {
	for _, folder := range []*string{&c.Unified, &c.CPU, &c.Memory, &c.Pids, &c.IO, &c.Devices, &c.Account} {
		if *folder != "" {
			*folder = where(*folder)
		}
	}
	return c
}

// Brief is the cell without what is dear for one that lives for a moment: the weight of its reads and writes on disks,
// which with version 1 costs a folder more. It shares that of the cell around it.
func (c Cell) Brief() Cell {
	if c.Grade != Cgroup2 {
		c.IO = ""
	}
	return c
}

// folders names each folder once.
func (c Cell) folders() []string {
	var all []string
	for _, folder := range []string{c.Unified, c.Memory, c.CPU, c.Pids, c.IO, c.Devices, c.Account} {
		if folder != "" && !slices.Contains(all, folder) {
			all = append(all, folder)
		}
	}
	return all
}

// Exists tells whether anything of the cell is there. One that was made or removed by halves exists.
func (c Cell) Exists() bool {
	return slices.ContainsFunc(c.folders(), func(folder string) bool {
		_, err := os.Lstat(folder)
		return err == nil
	})
}

// Make makes the cell. One that is there stays as it is.
func (c Cell) Make() error {
	for _, folder := range c.folders() {
		if err := syscall.Mkdir(folder, 0o755); err != nil && err != syscall.EEXIST {
			return failed("mkdir", folder, err)
		}
	}
	return nil
}

// MakeParent makes a cell for cells: with version 2 it holds no processes itself, and hands its controllers down.
func (c Cell) MakeParent() error {
	if err := c.Make(); err != nil || c.Grade != Cgroup2 {
		return err
	}
	return c.handDown()
}

// handDown lets the cells in this one have its controllers.
func (c Cell) handDown() error {
	for _, controller := range c.Controllers() {
		if err := write(c.Unified, "cgroup.subtree_control", "+"+controller); err != nil {
			return err
		}
	}
	return nil
}

// Controllers names what a cell limits.
func (c Cell) Controllers() (names []string) {
	for _, controller := range []struct{ name, folder string }{{"cpu", c.CPU}, {"io", c.IO}, {"memory", c.Memory}, {"pids", c.Pids}} {
		if controller.folder != "" {
			names = append(names, controller.name)
		}
	}
	return names
}

// Children names the cells in this one, also those of which there is only a half.
func (c Cell) Children() (names []string) {
	for _, folder := range c.folders() {
		entries, err := os.ReadDir(folder)
		if err != nil {
			continue // it is not there, and nothing is in it
		}
		for _, entry := range entries {
			if entry.IsDir() && !slices.Contains(names, entry.Name()) {
				names = append(names, entry.Name())
			}
		}
	}
	slices.Sort(names)
	return names
}

// Remove removes the cell with all cells in it, none of which holds a process: else the error is EBUSY.
func (c Cell) Remove() error {
	for _, folder := range c.folders() {
		if err := removeFolder(folder); err != nil {
			return err
		}
	}
	return nil
}

func removeFolder(folder string) error {
	err := syscall.Rmdir(folder)
	if err == nil || err == syscall.ENOENT {
		return nil
	}
	entries, listed := os.ReadDir(folder)
	if errors.Is(listed, os.ErrNotExist) {
		return nil
	}
	inside := 0
	for _, entry := range entries {
		if entry.IsDir() {
			inside++
			if err := removeFolder(filepath.Join(folder, entry.Name())); err != nil {
				return err
			}
		}
	}
	if inside == 0 {
		return failed("rmdir", folder, err)
	}
	if err := syscall.Rmdir(folder); err != nil && err != syscall.ENOENT {
		return failed("rmdir", folder, err)
	}
	return nil
}

const nameBytesMax = 200

// plainName is what stands in a name as it is. The kernel's own files have a dot and no '@'.
var plainName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// Own is the name of the cell, below that of an executor, that holds the executor itself: with version 2 a cell holds
// either cells or processes.
const Own = "own"

// ExecutorName is the name of an executor's cell below its agent's.
func ExecutorName(framework, executor string) string { return join(framework, executor) }

// TaskName is the name of a task's cell below its executor's.
func TaskName(task string) string { return join("task", task) }

// join makes one name of two; different ones have different names.
func join(first, second string) string {
	name := first + "@" + second
	if plainName.MatchString(first) && plainName.MatchString(second) && len(name) <= nameBytesMax {
		return name
	}
	sum := sha256.Sum256([]byte(first + "\x00" + second))
	return "hashed@@" + hex.EncodeToString(sum[:16]) // no plain name has two
}

// failed is the error of a call of the kernel, with what it was about.
func failed(what, path string, err error) error {
	return &os.PathError{Op: what, Path: path, Err: err}
}
