package allocator

import (
	"time"

	"golang.org/x/sys/unix"
)

// CPU is the processor time of the calling thread. On a machine that others use too it
// says more than the clock on the wall. Lock the goroutine to its thread first.
func CPU() time.Duration {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at); err != nil {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(at.Nano())
}
