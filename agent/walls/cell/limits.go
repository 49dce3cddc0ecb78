package cell

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// Limits are what the processes of a cell may use together. A field that is zero limits nothing, except CPUs.
type Limits struct {
	// CPUs, in thousandths of a core, is the cell's weight: when processors are short they are shared by weight, and so
	// are disks where the kernel can do that. 0 is the lowest weight.
	CPUs int64
	// Quota, in thousandths of a core, is the most that the cell gets, even when nobody else uses the processors.
	Quota int64
	// Memory is in bytes, and includes cached files. The kernel kills processes of a cell that needs more.
	Memory int64
	// Pids is how many processes and threads there may be in the cell.
	Pids int64
}

// periodMicroseconds is the time over which the kernel measures a quota.
const periodMicroseconds = 100_000

// Limit sets all limits. A limit whose controller the machine lacks is left out.
func (c Cell) Limit(l Limits) error {
	return errors.Join(c.shareTime(l), c.limitMemory(l), c.limitPids(l))
}

// Change sets only those limits that differ from the ones that the cell has, because each write to a file of the kernel
// takes time.
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

// shareTime sets the cell's weights for processors and disks, and its quota of processors.
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

// shares returns the weight for version 1, which is 1024, the kernel's default, for one core.
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

// quota returns the microseconds of processor time in a period: a thousandth of the period for each thousandth of a
// core. The kernel refuses less than a millisecond.
func quota(l Limits) int64 { return max(l.Quota*periodMicroseconds/1000, 1000) }

// weight returns the weight for version 2 and for disks, which is 100, the kernel's default, for one core.
func weight(l Limits, most int64) int64 { return min(max(l.CPUs/10, 1), most) }

// limitMemory1 sets the limit of memory, and the same limit for memory and swap together, so that nothing is swapped
// out to make room. The kernel refuses a limit of memory above the second one. So when the limit grows, the first write
// fails and is repeated after the second.
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

// limitMemory2 sets the limit of memory, allows no swap, and has the kernel kill all processes of a cell together. It
// never sets a limit below what is in use, so that a lower limit kills nothing.
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

// weighIO sets the cell's weight for disks. It does nothing where the kernel's disk scheduler has no weights.
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
