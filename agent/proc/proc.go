// Package proc reads the kernel's table of processes: which are alive, in which group and session, and what they have
// used. It changes nothing and starts nothing.
package proc

// Stat is one process at one moment.
type Stat struct {
	PID     int
	Parent  int
	Group   int
	Session int
	// Dead: it has ended and waits to be reaped by its parent.
	Dead bool
	// Start tells it from a later process of the same number. Linux: clock ticks since
	// boot; darwin: microseconds since 1970.
	Start uint64
	// Ticks are what it and its children that ended and were waited for have used, in
	// TicksPerSecond.
	Ticks uint64
	// Resident is its memory in bytes.
	Resident uint64
}

// TicksPerSecond is the unit of Ticks: the kernel's interface has it fixed.
const TicksPerSecond = 100

// Alive reports whether the process of that number and start still runs.
func Alive(pid int, start uint64) bool {
	stat, err := Read(pid)
	return err == nil && stat.Start == start && !stat.Dead
}
