package cell

import (
	"cmp"
	"errors"
	"math"
	"os"
	"strconv"
	"syscall"
)

// A spare is the cell of an ended task that waits for a next one. The groups of version 1, which have the controllers, serve
// again: that saves the kernel most of what a cell costs, to make them, and to release what was charged to a memory group that
// is removed. In version 2 nothing can be renamed. Where that stands beside version 1 its group is made anew for each task: it
// has no controllers and costs the least of them, the kernel removes it only when nothing lives in it, and the time of
// processors that it counts is of one task alone.

// SpareName is the name of a spare, below the cell of its executor.
func SpareName(number uint64) string { return join("spare", strconv.FormatUint(number, 10)) }

// CanSpare tells whether a cell like this one can become a spare. Where version 2 has the controllers nothing can be renamed,
// and where there is no version 2 nobody tells for certain that nothing is left. Which devices a group has denied can't be
// taken back for certain either.
func (c Cell) CanSpare() bool {
	return c.Grade == Hybrid && c.CPU != "" && c.Memory != "" && c.Pids != "" && c.IO == "" && c.Devices == ""
}

// SetAside makes a spare of a cell in which nothing lives; nobody finds a way into it by its task's name any more. Of an error
// all that there still is of the cell is where it was.
func (c Cell) SetAside(name Cell) (spare Cell, err error) {
	if err := syscall.Rmdir(c.Unified); err != nil { // EBUSY: something lives in it
		return Cell{}, failed("rmdir", c.Unified, err)
	}
	name.Unified = ""
	return name, c.rename(name)
}

// TakeOver makes a spare the cell of a task, as far as that cell is told: the groups of processors and of processes keep the
// spare's name, as nobody but who starts the task looks for them. Of an error the spare is where it was.
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

// rename gives the folders of version 1 the names that they have in another cell, or none of them.
func (c Cell) rename(to Cell) error {
	var done [][2]string
	for _, folder := range [][2]string{{c.Memory, to.Memory}, {c.CPU, to.CPU}, {c.Pids, to.Pids}} {
		if folder[0] == folder[1] {
			continue
		}
		if err := syscall.Rename(folder[0], folder[1]); err != nil {
			for _, renamed := range done {
				_ = syscall.Rename(renamed[1], renamed[0]) // whoever looks for it there finds nothing, at worst
			}
			return failed("rename", folder[0], err)
		}
		done = append(done, folder)
	}
	return nil
}

// spareBytesMax is the most that may be charged to the memory group of a spare: pages of files that its task has read or
// written, their names, and what the kernel has taken in advance. It takes that back when the next task needs the room, but
// until then some of it counts as that one's.
const spareBytesMax = 1 << 20

// IsAsNew tells whether a spare is what a new cell would be: nothing is in it, no limit was ever reached, and hardly any
// memory is charged to it. It forgets the most memory that was used there.
func (c Cell) IsAsNew() bool {
	// The dead that nobody has waited for count among these processes.
	if !reads(c.Pids, "pids.current", "0") {
		return false
	}
	used, err := readNumber(c.Memory, "memory.usage_in_bytes")
	if err != nil || used > spareBytesMax {
		return false
	}
	events, err := c.Events()
	return err == nil && events == Events{} && write(c.Memory, "memory.max_usage_in_bytes", "0") == nil
}

// IsUntouched tells whether nobody has changed what only root can: no process has moved into one of the spare's folders alone,
// no group was made in them, and its limits are these.
func (c Cell) IsUntouched(limits Limits) bool {
	for _, folder := range c.folders() {
		var is syscall.Stat_t
		if syscall.Stat(folder, &is) != nil || is.Nlink != 2 { // each folder in it makes one more
			return false
		}
	}
	return reads(c.Memory, "cgroup.procs", "") && reads(c.CPU, "cgroup.procs", "") && c.has(limits)
}

// has tells whether a spare has these limits and no others, whoever has written them.
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

// reads tells whether a file of the kernel holds this text.
func reads(folder, name, want string) bool {
	text, err := read(folder, name)
	return err == nil && text == want
}
