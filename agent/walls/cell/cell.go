// Package cell holds processes together in control groups of the kernel. A cell is one group: a process that is put
// into it stays in it with all that it starts. A cell has limits, is killed whole by one write, and tells when it is
// empty. Cells are nested: an agent has one, each of its executors has one below it, and each task of the built-in
// executor has one below that. The name of a cell follows from IDs alone, so an agent that comes back finds it whatever
// became of process numbers.
//
// The package does not decide which limits a task has, nor which state and reason its end is reported with. It never
// says that a cell is empty while a process of the cell is alive. (R41)
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

// Grade says which versions of control groups the agent uses.
type Grade string

// The grades, best first.
const (
	// Cgroup2 limits and kills by version 2. It needs Linux 5.14.
	Cgroup2 Grade = "cgroup2"
	// Hybrid limits by version 1 and kills by version 2, which is mounted beside it.
	Hybrid Grade = "hybrid"
	// Cgroup1 limits by version 1, and has no version 2: a cell is killed process by process.
	Cgroup1 Grade = "cgroup1"
	// Groups has no control groups that we may use. Which processes belong together is told from process groups,
	// sessions and environments.
	Groups Grade = "groups"
)

// Cell is a control group. It holds the group's folder in each hierarchy that is used, and "" for the others. With
// Cgroup2 all of these are the same folder. A value only names the group, and the kernel knows whether the group
// exists; so values may be kept and compared.
type Cell struct {
	Grade Grade `json:"grade"`
	// Unified is the folder of version 2, through which the cell is killed.
	Unified string `json:"unified,omitempty"`
	CPU     string `json:"cpu,omitempty"`
	Memory  string `json:"memory,omitempty"`
	Pids    string `json:"pids,omitempty"`
	IO      string `json:"io,omitempty"`
	// Devices is the folder that says which devices may be used. It is set only where some devices are to be kept from
	// tasks.
	Devices string `json:"devices,omitempty"`
	// Account is the folder that measures processor time where Unified does not.
	Account string `json:"account,omitempty"`
}

// Child returns the cell of that name in this one. It makes nothing.
func (c Cell) Child(name string) Cell {
	return c.move(func(folder string) string { return filepath.Join(folder, name) })
}

// move returns the cell with each of its folders replaced by the result of where for that folder.
func (c Cell) move(where func(folder string) string) Cell {
	for _, folder := range []*string{&c.Unified, &c.CPU, &c.Memory, &c.Pids, &c.IO, &c.Devices, &c.Account} {
		if *folder != "" {
			*folder = where(*folder)
		}
	}
	return c
}

// Brief returns the cell without the part that is too costly for a cell that lives for a moment: with version 1, the
// weight of its reads and writes on disks takes one more folder. Without it the cell shares the weight of its parent.
func (c Cell) Brief() Cell {
	if c.Grade != Cgroup2 {
		c.IO = ""
	}
	return c
}

// folders returns the folders of the cell, each once.
func (c Cell) folders() []string {
	var all []string
	for _, folder := range []string{c.Unified, c.Memory, c.CPU, c.Pids, c.IO, c.Devices, c.Account} {
		if folder != "" && !slices.Contains(all, folder) {
			all = append(all, folder)
		}
	}
	return all
}

// Exists reports whether any folder of the cell is there. So a cell that was made or removed only in part exists.
func (c Cell) Exists() bool {
	return slices.ContainsFunc(c.folders(), func(folder string) bool {
		_, err := os.Lstat(folder)
		return err == nil
	})
}

// Make makes the folders of the cell. Those that are there stay as they are.
func (c Cell) Make() error {
	for _, folder := range c.folders() {
		if err := syscall.Mkdir(folder, 0o755); err != nil && err != syscall.EEXIST {
			return failed("mkdir", folder, err)
		}
	}
	return nil
}

// MakeParent makes a cell that is to hold other cells. With version 2 such a cell holds no processes itself, and
// enables its controllers for the cells in it.
func (c Cell) MakeParent() error {
	if err := c.Make(); err != nil || c.Grade != Cgroup2 {
		return err
	}
	return c.handDown()
}

// handDown enables the controllers of this cell for the cells in it.
func (c Cell) handDown() error {
	for _, controller := range c.Controllers() {
		if err := write(c.Unified, "cgroup.subtree_control", "+"+controller); err != nil {
			return err
		}
	}
	return nil
}

// Controllers returns the names of the controllers that limit the cell.
func (c Cell) Controllers() (names []string) {
	for _, controller := range []struct{ name, folder string }{{"cpu", c.CPU}, {"io", c.IO}, {"memory", c.Memory}, {"pids", c.Pids}} {
		if controller.folder != "" {
			names = append(names, controller.name)
		}
	}
	return names
}

// Children returns the names of the cells in this one, sorted, including those of which only some folders are there.
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

// Remove removes the cell with all cells in it. None of them may hold a process, else the error is EBUSY.
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

// plainName matches what may be part of a cell's name unchanged. The files that the kernel makes in a group have a dot
// and no '@' in their names, so no cell is named as one of them.
var plainName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// Own is the name of the cell, inside that of an executor, which holds the executor's own processes. It is needed
// because with version 2 a cell holds either cells or processes.
const Own = "own"

// ExecutorName returns the name of an executor's cell within that of its agent.
func ExecutorName(framework, executor string) string { return join(framework, executor) }

// TaskName returns the name of a task's cell within that of its executor.
func TaskName(task string) string { return join("task", task) }

// join makes one name of two words. Different pairs of words get different names.
func join(first, second string) string {
	name := first + "@" + second
	if plainName.MatchString(first) && plainName.MatchString(second) && len(name) <= nameBytesMax {
		return name
	}
	sum := sha256.Sum256([]byte(first + "\x00" + second))
	return "hashed@@" + hex.EncodeToString(sum[:16]) // no plain name has two '@'
}

// failed returns the error of a system call together with the path that it was about.
func failed(what, path string, err error) error {
	return &os.PathError{Op: what, Path: path, Err: err}
}
