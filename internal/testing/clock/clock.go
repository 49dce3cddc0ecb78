// Package clock makes times for tests in which somebody sets the wall clock while the monotonic time continues.
package clock

import (
	"time"
	"unsafe"
)

// At returns a time like time.Now: with a wall clock, and with the monotonic time that has passed since the start of
// the process. Package time can't make one from two given clocks, so this function knows how it lays them out; TestAt
// compares the result with what times say about themselves. The wall clock must be between 1885 and 2157.
func At(wall time.Time, passed time.Duration) time.Time {
	const hasMonotonic = 1 << 63
	t := time.Unix(0, 0).UTC()
	layout := (*struct {
		wall uint64
		ext  int64
	})(unsafe.Pointer(&t))
	layout.wall = hasMonotonic | uint64(wall.Unix()-begin)<<30 | uint64(wall.Nanosecond())
	layout.ext = int64(passed)
	return t
}

// begin is the first second that such a time can have, 1885-01-01.
const begin = -2682288000
