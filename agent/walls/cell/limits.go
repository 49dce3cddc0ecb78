package cell

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// Limits are what the processes of a cell may use together. Zero fields, but CPUs, limit nothing.
type Limits struct {
	// CPUs, in thousandths of a core, is the weight by which processors, and disks where that can be weighed, are shared
	// when there are not enough of them. 0: the lowest.
	CPUs int64
	// Quota, in thousandths of a core, is the most that it gets, also when others use nothing.
	Quota int64
	// Memory is in bytes, with what is cached for it. Who needs more is killed by the kernel.
	Memory int64
	// Pids is how many processes and threads there may be.
	Pids int64
}

// periodMicroseconds is the time over which a quota is kept.
const periodMicroseconds = 100_000

// Limit sets all limits. A controller that the machine lacks limits nothing.
func (c Cell) Limit(l Limits) error {
	return errors.Join(c.shareTime(l), c.limitMemory(l), c.limitPids(l))
}

// Change sets what differs from the limits that the cell has: each of the kernel's files takes its time to write.
func (c Cell) Change(from, to Limits) error {
	var failures []error
	if from.CPUs != to.CPUs || from.Quota != to.Quota {
		failures = append(failures, c.shareTime(to))
	}
	if from.Memory != to.Memory {
		failures = append(failures, c.limitMemory(to))
	}
	if from.Pids != to.Pids {
		failures = append(failures, c.limitPids(to))
	}
	return errors.Join(failures...)
}

// shareTime says how the time of processors and disks is shared.
func (c Cell) shareTime(l Limits) error {
	if c.Grade == Cgroup2 {
		return errors.Join(c.limitCPU2(l), c.weighIO(l))
	}
	return errors.Join(c.limitCPU1(l), c.weighIO(l))
}

func (c Cell) limitMemory(l Limits) error {
	if c.Grade == Cgroup2 {
		return c.limitMemory2(l)
	}
	return c.limitMemory1(l)
}

func (c Cell) limitCPU1(l Limits) error {
	if c.CPU == "" {
		return nil
	}
	err := write(c.CPU, "cpu.shares", strconv.FormatInt(shares(l), 10))
	if l.Quota == 0 || err != nil {
		return err
	}
	return errors.Join(
		write(c.CPU, "cpu.cfs_period_us", strconv.Itoa(periodMicroseconds)),
		write(c.CPU, "cpu.cfs_quota_us", strconv.FormatInt(quota(l), 10)))
}

// shares is 1024, what the kernel gives to all, for one core.
func shares(l Limits) int64 { return min(max(l.CPUs*1024/1000, 2), 1<<18) }

func (c Cell) limitCPU2(l Limits) error {
	if c.CPU == "" {
		return nil
	}
	err := write(c.CPU, "cpu.weight", strconv.FormatInt(weight(l, 10_000), 10))
	if l.Quota == 0 || err != nil {
		return err
	}
	return write(c.CPU, "cpu.max", fmt.Sprintf("%d %d", quota(l), periodMicroseconds))
}

// quota is a thousandth of the period for each thousandth of a core; less than a millisecond the kernel refuses.
func quota(l Limits) int64 { return max(l.Quota*periodMicroseconds/1000, 1000) }

// weight is 100, what the kernel gives to all, for one core.
func weight(l Limits, most int64) int64 { return min(max(l.CPUs/10, 1), most) }

// limitMemory1 limits memory, and memory with swap alike, so that nothing is swapped out to make room. The second is
// never below the first: when the limit grows it goes first.
func (c Cell) limitMemory1(l Limits) error {
	if c.Memory == "" || l.Memory == 0 {
		return nil
	}
	const limit, withSwap = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
	bytes := strconv.FormatInt(l.Memory, 10)
	err := write(c.Memory, limit, bytes)
	swap := ignoreMissing(write(c.Memory, withSwap, bytes))
	if errors.Is(err, syscall.EINVAL) && swap == nil {
		return write(c.Memory, limit, bytes)
	}
	return errors.Join(err, swap)
}

// limitMemory2 limits memory, allows no swap, and has all processes of a cell killed together. What is in use already
// is never taken away: a limit that shrinks ends there.
func (c Cell) limitMemory2(l Limits) error {
	if c.Memory == "" || l.Memory == 0 {
		return nil
	}
	most := l.Memory
	if used, err := readNumber(c.Memory, "memory.current"); err == nil {
		most = max(most, int64(min(used, 1<<62)))
	}
	return errors.Join(
		write(c.Memory, "memory.max", strconv.FormatInt(most, 10)),
		ignoreMissing(write(c.Memory, "memory.swap.max", "0")),
		write(c.Memory, "memory.oom.group", "1"))
}

func (c Cell) limitPids(l Limits) error {
	if c.Pids == "" || l.Pids == 0 {
		return nil
	}
	return write(c.Pids, "pids.max", strconv.FormatInt(l.Pids, 10))
}

// weighIO does nothing where no scheduler of disks weighs.
func (c Cell) weighIO(l Limits) error {
	switch {
	case c.IO == "":
		return nil
	case c.Grade == Cgroup2:
		return ignoreMissing(write(c.IO, "io.weight", strconv.FormatInt(weight(l, 10_000), 10)))
	}
	return ignoreMissing(write(c.IO, "blkio.bfq.weight", strconv.FormatInt(weight(l, 1000), 10)))
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
