package allocator_test

import (
	"time"

	"golang.org/x/sys/unix"
)

// CPU returns the processor time of the calling thread. On a machine that others use too it says more than the wall
// clock. The goroutine must be locked to its thread first.
func CPU() time.Duration {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at); err != nil {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(at.Nano())
}
