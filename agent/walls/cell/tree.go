package cell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/tenderhq/tender/internal/datafolder"
)

// Tree holds the cells of an agent: the agent's own cell, with those of its executors in it. The zero value is a tree
// without cells.
type Tree struct {
	// Root is the agent's own cell.
	Root Cell
	// Makes says whether new cells are made. Without it the tree still ends the cells that are there.
	Makes bool
	// Lacks says in words why the tree can't do more; "" if nothing is missing.
	Lacks string
	file  string
	locks []int // file descriptors of the root's folders, locked while the tree is open
}

// Place says where Open looks for a tree.
type Place struct {
	// Folder is the agent's data folder. The tree is named after it, and a file in it records where the tree is. So the
	// next agent with this folder finds the tree, wherever that agent was started from.
	Folder string
	// Proc is where the kernel shows processes and mounts. Default /proc.
	Proc string
	// Devices says that there are devices which are to be kept from tasks that do not have them.
	Devices bool
	// Best is the best grade that is tried. Default: all are tried. With Groups no new cells are made.
	Best Grade
}

// Open finds the tree that the folder records, or makes one in the control groups that this process is in. It never
// fails: where there are no control groups that we may use, Root.Grade is Groups, and Lacks says why.
func Open(place Place) Tree {
	t := Tree{file: filepath.Join(place.Folder, "cells")}
	if place.Proc == "" {
		place.Proc = "/proc"
	}
	if remembered, err := t.recall(); err == nil && remembered.Exists() {
		return t.comeBack(remembered, place.Best != Groups)
	}
	if place.Best == Groups {
		t.Root.Grade, t.Lacks = Groups, "control groups were not asked for"
		return t
	}
	t.Lacks = t.plant(place)
	if t.Makes = t.Root.Grade != Groups; t.Makes {
		t.removeDead()
	}
	return t
}

// comeBack goes on with the tree of an earlier process of the agent, whatever cells are in it.
func (t Tree) comeBack(root Cell, makes bool) Tree {
	t.Root = root
	err := t.hold() // the earlier process may have been killed while it made or removed the tree
	t.Makes = makes && err == nil
	switch {
	case err != nil:
		t.Lacks = "the control groups of the agent before can't be used any more: " + err.Error()
	case !makes:
		t.Lacks = "control groups were not asked for"
	default:
		t.Lacks = missing(root)
	}
	return t
}

// recall reads where the tree of an earlier process of the agent is.
func (t Tree) recall() (Cell, error) {
	var c Cell
	text, err := os.ReadFile(t.file)
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(text, &c)
}

// remember records where the tree is to be. It is called before anything of the tree is made. A full disk has no room
// for another file; there it writes over the record of the tree before, which is no more.
func (t Tree) remember(c Cell) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if err := os.WriteFile(t.file+".new", text, 0o600); err != nil {
		if datafolder.IsDiskFull(err) && writeOver(t.file, text) == nil {
			return nil
		}
		return err
	}
	return os.Rename(t.file+".new", t.file)
}

// writeOver gives a file that exists another content, in the room that it has already.
func writeOver(name string, content []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Truncate(int64(len(content))), file.Close())
}

// plant makes the agent's cell with the best grade that works here, and says what is missing.
func (t *Tree) plant(place Place) (lacks string) {
	t.Root = Cell{Grade: Groups}
	hierarchies, err := readHierarchies(place.Proc)
	if err != nil {
		return "this system has no control groups: " + err.Error()
	}
	name := nameOfTree(place.Folder)
	lacks = "no control groups are mounted"
	for _, grade := range []Grade{Cgroup2, Hybrid, Cgroup1} {
		if place.Best == Hybrid && grade == Cgroup2 || place.Best == Cgroup1 && grade != Cgroup1 {
			continue
		}
		root, found := grow(grade, hierarchies)
		if !found {
			continue
		}
		if place.Devices {
			root = root.addDevices(hierarchies)
		}
		t.Root = root.Child(name)
		if err := errors.Join(t.remember(t.Root), t.try(), t.tryDevices()); err != nil {
			t.Root = Cell{Grade: Groups}
			lacks = fmt.Sprintf("the control groups of version %s can't be used: %v", map[Grade]string{Cgroup2: "2", Hybrid: "1 and 2", Cgroup1: "1"}[grade], err)
			continue
		}
		return missing(t.Root)
	}
	return lacks
}

// missing says which of the usual limits the cell does not have; "" if it has them all.
func missing(root Cell) string {
	for _, controller := range []string{"cpu", "memory", "pids"} {
		if !slices.Contains(root.Controllers(), controller) {
			return "the control groups here have no controller " + controller
		}
	}
	return ""
}

// grow returns the cell in which the tree can be made with this grade, by the groups that this process is in, and
// whether the hierarchies that the grade needs are there.
func grow(grade Grade, hierarchies []hierarchy) (Cell, bool) {
	c := Cell{Grade: grade}
	for _, h := range hierarchies {
		switch {
		case grade == Cgroup2 && h.version2:
			return grow2(h)
		case h.version2 && grade == Hybrid:
			c.Unified = h.own
		}
		for controller, folder := range map[string]*string{"cpu": &c.CPU, "memory": &c.Memory, "pids": &c.Pids, "blkio": &c.IO} {
			if h.has(controller) {
				*folder = h.own
			}
		}
		if h.has("cpuacct") && grade == Cgroup1 {
			c.Account = h.own
		}
	}
	limits := c.Memory != "" || c.Pids != "" || c.CPU != ""
	return c, limits && (grade != Hybrid || c.Unified != "")
}

// grow2 returns the cell in which the tree can be made with version 2. Usually that is the group that this process is
// in. When that group has the name ownGroupName, this process was put there only to be out of the way, by whoever
// started it or by an earlier agent, and the tree is made in the group around it. A group that holds other processes
// too, such as that of a person's session, is not ours to change, and the tree is made at the top of the hierarchy.
func grow2(h hierarchy) (Cell, bool) {
	others := slices.ContainsFunc(readProcesses(h.own), func(pid int) bool { return pid != os.Getpid() })
	switch {
	case h.own == h.mount:
	case filepath.Base(h.own) == ownGroupName:
		h.own = filepath.Dir(h.own)
	case others:
		h.own = h.mount
	}
	c := Cell{Grade: Cgroup2, Unified: h.own}
	text, err := read(h.own, "cgroup.controllers")
	if err != nil {
		return c, false
	}
	for controller, folder := range map[string]*string{"cpu": &c.CPU, "memory": &c.Memory, "pids": &c.Pids, "io": &c.IO} {
		if slices.Contains(strings.Fields(text), controller) {
			*folder = h.own
		}
	}
	return c, c.Memory != "" && c.Pids != ""
}

// ownGroupName is the name of the group of version 2 into which an agent moves itself to make room for cells beside it.
const ownGroupName = "agent"

// try makes the agent's cell, and as a test one inside it, which it removes again. On an error it removes both.
func (t *Tree) try() error {
	root := t.Root
	if root.Grade == Cgroup2 {
		if err := root.move(filepath.Dir).handDownAround(); err != nil {
			return err
		}
	}
	probe := root.Child("probe")
	err := t.hold()
	if err == nil {
		err = probe.Make()
	}
	if err == nil && root.Unified != "" {
		if _, missing := os.Stat(filepath.Join(probe.Unified, "cgroup.kill")); missing != nil {
			err = errors.New("version 2 of this kernel has no cgroup.kill; Linux 5.14 has")
		}
	}
	if err == nil {
		err = probe.Limit(Limits{CPUs: 1000, Memory: 1 << 30, Pids: 1000})
	}
	if err = errors.Join(err, probe.Remove()); err != nil {
		err = errors.Join(err, root.Remove())
		t.release()
	}
	return err
}

// handDownAround enables controllers for the groups inside the one that this agent was started in. A group with such
// controllers may hold no processes, unless it is the root of the hierarchy. So this process, and all others of the
// group, move into a group beside the cells.
func (c Cell) handDownAround() error {
	err := c.handDown()
	if !errors.Is(err, syscall.EBUSY) {
		return err
	}
	beside := c.Child(ownGroupName)
	if err := beside.Make(); err != nil {
		return err
	}
	for _, pid := range readProcesses(c.Unified) {
		if err := write(beside.Unified, "cgroup.procs", strconv.Itoa(pid)); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return c.handDown()
}

// release gives the locks up. From then on other agents may remove the agent's cell if nothing runs in it.
func (t *Tree) release() {
	unlock(t.locks)
	t.locks = nil
}

// Executor returns the cell of an executor, which holds the cells of its tasks.
func (t *Tree) Executor(framework, executor string) Cell {
	return t.Root.Child(ExecutorName(framework, executor))
}

// Sweep ends all cells of executors except the known ones, which are given by name: the others are left over from
// executors that the agent does not know any more. (R41)
func (t *Tree) Sweep(ctx context.Context, known map[string]bool) error {
	var failures []error
	for _, name := range t.Root.Children() {
		if !known[name] {
			failures = append(failures, t.Root.Child(name).End(ctx))
		}
	}
	return errors.Join(failures...)
}

// Close removes the tree if it holds no cells of executors. Otherwise it stays for the next process of the agent. The
// record of the tree stays in any case: if the disk is full then, the next process has no room for another one.
func (t *Tree) Close() error {
	defer t.release()
	if t.Root.Grade == Groups || len(t.Root.Children()) > 0 {
		return nil
	}
	return t.Root.Remove()
}
