package cell

import (
	"cmp"
	"errors"
	"math"
	"os"
	"slices"
	"strconv"
	"syscall"
)

// A spare is the cell of an ended task that waits for a next task. Its groups of version 1, which have the controllers,
// are renamed and used again. That saves most of what a cell costs: the kernel need not make these groups, nor release
// what was charged to a memory group that is removed. A group of version 2 can't be renamed. Where version 2 is mounted
// beside version 1, its group is made anew for each task. That is cheap, as the group has no controllers; the kernel
// removes the old one only when no process lives in it; and the processor time that it counts is that of one task only.

// SpareName returns the name of a spare, within the cell of its executor.
func SpareName(number uint64) string { return join("spare", strconv.FormatUint(number, 10)) }

// CanSpare reports whether a cell like this one can become a spare. It can't where version 2 has the controllers, as
// its groups can't be renamed; nor where there is no version 2, as only version 2 tells for certain that no process is
// left; nor where the cell has rules for devices, as denied ones can't be permitted again for certain. It must have
// groups for processors, memory and processes, and none for disks (see Brief).
func (c Cell) CanSpare() bool {
	return c.Grade == Hybrid && c.CPU != "" && c.Memory != "" && c.Pids != "" && c.IO == "" && c.Devices == ""
}

// SetAside makes a spare of a cell in which no process lives: it renames the cell's folders to those of name. After
// that no process can enter them by the name of the cell's task. On an error, those folders of the cell that still
// exist have their old names.
func (c Cell) SetAside(name Cell) (spare Cell, err error) {
	if err := syscall.Rmdir(c.Unified); err != nil { // EBUSY: something lives in it
		return Cell{}, failed("rmdir", c.Unified, err)
	}
	name.Unified = ""
	return name, c.rename(name)
}

// TakeOver makes a spare the cell of a task, and returns that cell. Its groups for processors and for processes keep
// the spare's name, because only the executor that starts the task looks for them; the others get the task's. On an
// error the spare has its old names.
func (c Cell) TakeOver(spare Cell) (taken Cell, err error) {
	c.CPU, c.Pids = spare.CPU, spare.Pids
	for _, folder := range []string{c.CPU, c.Pids} {
		var is syscall.Stat_t
		if err := syscall.Stat(folder, &is); err != nil { // somebody has removed it
			return c, failed("stat", folder, err)
		}
	}
	if err := spare.rename(c); err != nil {
		return c, err
	}
	if err := syscall.Mkdir(c.Unified, 0o755); err != nil {
		return c, errors.Join(failed("mkdir", c.Unified, err), c.rename(spare))
	}
	return c, nil
}

// rename gives the folders of version 1 the names that they have in another cell: all of them, or none if one fails.
func (c Cell) rename(to Cell) error {
	var done [][2]string
	for _, folder := range [][2]string{{c.Memory, to.Memory}, {c.CPU, to.CPU}, {c.Pids, to.Pids}} {
		if folder[0] == folder[1] {
			continue
		}
		if err := syscall.Rename(folder[0], folder[1]); err != nil {
			for _, renamed := range done {
				_ = syscall.Rename(renamed[1], renamed[0]) // at worst the folder is not found under its old name
			}
			return failed("rename", folder[0], err)
		}
		done = append(done, folder)
	}
	return nil
}

// spareBytesMax is how many bytes may be charged to the memory group of a spare at most: pages of files that its task
// has read or written, their names, and what the kernel has taken in advance. The kernel takes this memory back when
// the next task needs the room, but until then some of it counts as used by the next task.
const spareBytesMax = 1 << 20

// Grip holds the files of a cell open that each task in it needs: its entrance, and what tells whether it is like a new
// one. They stay the cell's when it gets another name.
type Grip struct {
	in                  Entrance
	processes, refused  int // pids.current, pids.events
	memory, kills, peak int // memory.usage_in_bytes, memory.oom_control, memory.max_usage_in_bytes
}

// Grip opens these files of a cell that can become a spare, or is one.
func (c Cell) Grip() (*Grip, error) {
	in, err := c.Entrance()
	if err != nil {
		return nil, err
	}
	g := &Grip{in: in, processes: -1, refused: -1, memory: -1, kills: -1, peak: -1}
	for _, file := range []struct {
		folder, name string
		mode         int
		descriptor   *int
	}{
		{c.Pids, "pids.current", syscall.O_RDONLY, &g.processes}, {c.Pids, "pids.events", syscall.O_RDONLY, &g.refused},
		{c.Memory, "memory.usage_in_bytes", syscall.O_RDONLY, &g.memory}, {c.Memory, "memory.oom_control", syscall.O_RDONLY, &g.kills},
		{c.Memory, "memory.max_usage_in_bytes", syscall.O_WRONLY, &g.peak},
	} {
		if *file.descriptor, err = openFile(file.folder, file.name, file.mode); err != nil {
			g.Close()
			return nil, err
		}
	}
	return g, nil
}

// Close closes the files. A nil grip holds none.
func (g *Grip) Close() {
	if g == nil {
		return
	}
	g.in.Close()
	Entrance{g.processes, g.refused, g.memory, g.kills, g.peak}.Close() // -1, for what was not opened, closes nothing
}

// Entrance returns the cell's entrance; nil, which is to be opened, if the grip is nil.
func (g *Grip) Entrance() Entrance {
	if g == nil {
		return nil
	}
	return g.in
}

// Highest returns the highest file descriptor that it holds.
func (g *Grip) Highest() int {
	return max(slices.Max(g.in), g.processes, g.refused, g.memory, g.kills, g.peak)
}

// IsAsNew reports whether a spare is like a new cell: no process is in it, no limit was ever reached, and at most
// spareBytesMax of memory are charged to it. If so it also resets the peak of the memory used there.
func (g *Grip) IsAsNew() bool {
	left, err := readAgain(g.processes) // zombies count among these
	if err != nil || left != "0" {
		return false
	}
	text, err := readAgain(g.memory)
	if err != nil {
		return false
	}
	if used, err := strconv.ParseUint(text, 10, 64); err != nil || used > spareBytesMax {
		return false
	}
	refused, err := readAgain(g.refused)
	kills, err2 := readAgain(g.kills)
	return err == nil && err2 == nil && numberIn(refused, "max") == 0 && numberIn(kills, "oom_kill") == 0 && writeTo(g.peak, "0") == nil
}

// IsUntouched reports whether a spare is free of changes that only root can make: no process was moved into its memory
// or processor group alone, no group was made inside its groups, and its limits are the given ones.
func (c Cell) IsUntouched(limits Limits) bool {
	for _, folder := range c.folders() {
		var is syscall.Stat_t
		if syscall.Stat(folder, &is) != nil || is.Nlink != 2 { // each folder inside adds a link
			return false
		}
	}
	return reads(c.Memory, "cgroup.procs", "") && reads(c.CPU, "cgroup.procs", "") && c.has(limits)
}

// has reports whether the limits of a spare are exactly these, as the kernel has them.
func (c Cell) has(limits Limits) bool {
	memory := cmp.Or(limits.Memory, math.MaxInt64)
	memory -= memory % int64(os.Getpagesize()) // the kernel counts pages
	most, pids := "-1", "max"
	if limits.Quota != 0 {
		most = strconv.FormatInt(quota(limits), 10)
	}
	if limits.Pids != 0 {
		pids = strconv.FormatInt(limits.Pids, 10)
	}
	return reads(c.CPU, "cpu.shares", strconv.FormatInt(shares(limits), 10)) && reads(c.CPU, "cpu.cfs_quota_us", most) &&
		reads(c.Memory, "memory.limit_in_bytes", strconv.FormatInt(memory, 10)) && reads(c.Pids, "pids.max", pids)
}

// reads reports whether a file of the kernel holds this text.
func reads(folder, name, want string) bool {
	text, err := read(folder, name)
	return err == nil && text == want
}
