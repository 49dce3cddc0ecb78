package cell

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// Events counts how often the kernel has enforced the limits of a cell.
type Events struct {
	// MemoryKills is how many processes were killed for want of memory.
	MemoryKills uint64
	// PidsRefused is how often a process or thread could not be started.
	PidsRefused uint64
}

// Events returns the counts since the cell was made.
func (c Cell) Events() (Events, error) {
	var events Events
	var failures []error
	if c.Memory != "" {
		name := "memory.oom_control"
		if c.Grade == Cgroup2 {
			name = "memory.events"
		}
		text, err := read(c.Memory, name)
		events.MemoryKills = numberIn(text, "oom_kill")
		failures = append(failures, err)
	}
	if c.Pids != "" {
		text, err := read(c.Pids, "pids.events")
		events.PidsRefused = numberIn(text, "max")
		failures = append(failures, err)
	}
	return events, errors.Join(failures...)
}

// Peak returns the most memory that the cell has ever used, in bytes; 0 if that is not known.
func (c Cell) Peak() uint64 {
	if c.Memory == "" {
		return 0
	}
	name := "memory.max_usage_in_bytes"
	if c.Grade == Cgroup2 {
		name = "memory.peak"
	}
	peak, err := readNumber(c.Memory, name)
	if err != nil {
		return 0
	}
	return peak
}

// Usage says what a cell uses.
type Usage struct {
	// CPU is the processor time that the cell has used since it was made.
	CPU time.Duration
	// Memory is in bytes, without cached pages of files, which the kernel takes back when it needs them.
	Memory uint64
	// Processes is how many processes are in the cell now.
	Processes int
}

// Usage measures the cell together with the cells in it.
func (c Cell) Usage() (Usage, error) {
	var usage Usage
	var err error
	if usage.CPU, err = c.cpuTime(); err != nil {
		return Usage{}, err
	}
	if usage.Memory, err = c.memoryUsed(); err != nil {
		return Usage{}, err
	}
	for _, folder := range c.folders()[:1] { // all hierarchies hold the same processes
		for _, below := range tree(folder) {
			usage.Processes += len(readProcesses(below))
		}
	}
	return usage, nil
}

func (c Cell) cpuTime() (time.Duration, error) {
	if c.Unified != "" {
		text, err := read(c.Unified, "cpu.stat")
		return time.Duration(numberIn(text, "usage_usec")) * time.Microsecond, err
	}
	if c.Account == "" {
		return 0, nil
	}
	nanoseconds, err := readNumber(c.Account, "cpuacct.usage")
	return time.Duration(nanoseconds), err
}

func (c Cell) memoryUsed() (uint64, error) {
	if c.Memory == "" {
		return 0, nil
	}
	current, files, shared := "memory.usage_in_bytes", "total_cache", "total_shmem"
	if c.Grade == Cgroup2 {
		current, files, shared = "memory.current", "file", "shmem"
	}
	used, err := readNumber(c.Memory, current)
	if err != nil {
		return 0, err
	}
	stat, err := read(c.Memory, "memory.stat")
	if err != nil {
		return 0, err
	}
	cached := numberIn(stat, files)
	cached -= min(numberIn(stat, shared), cached) // the kernel counts shared memory with files, but can't take it back
	return used - min(cached, used), nil
}

// String returns the first folder of the cell.
func (c Cell) String() string {
	for _, folder := range c.folders() {
		return filepath.Clean(folder)
	}
	return "no cell"
}

// Reached says which limit the processes of a cell have reached. The zero value says that they have reached none.
type Reached struct {
	Memory bool   // some were killed for want of memory
	Pids   bool   // some could not be started
	Why    string // for people
}

// Reached returns which limit the processes of the cell have reached. If they have reached both, it returns the limit
// of memory, because for that limit processes were killed.
func (c Cell) Reached() (Reached, error) {
	events, err := c.Events()
	switch {
	case err != nil:
		return Reached{}, err
	case events.MemoryKills > 0:
		return Reached{Memory: true, Why: c.whyMemory()}, nil
	case events.PidsRefused > 0:
		return Reached{Pids: true, Why: c.whyPids()}, nil
	}
	return Reached{}, nil
}

func (c Cell) whyMemory() string {
	limit, err := c.memoryLimit()
	if err != nil || limit >= 1<<62 {
		return fmt.Sprintf("the kernel killed it for want of memory; it used %d MB at its peak", c.Peak()>>20)
	}
	return fmt.Sprintf("the kernel killed it for want of memory; it used %d MB at its peak and may use %d MB", c.Peak()>>20, limit>>20)
}

func (c Cell) whyPids() string {
	limit, err := readNumber(c.Pids, "pids.max")
	if err != nil {
		return "it could start no more processes or threads"
	}
	return fmt.Sprintf("it could start no more processes or threads: it may have %d", limit)
}

func (c Cell) memoryLimit() (uint64, error) {
	if c.Grade == Cgroup2 {
		return readNumber(c.Memory, "memory.max")
	}
	return readNumber(c.Memory, "memory.limit_in_bytes")
}
