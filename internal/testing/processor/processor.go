// Package processor tells tests how much processor time was used. A busy machine changes it less than the time on the
// wall, and it is real where a test's clock is not.
package processor

import (
	"syscall"
	"testing"
	"time"
)

// Own returns the processor time that this process has used so far.
func Own(t testing.TB) time.Duration { return usedBy(t, syscall.RUSAGE_SELF) }

// WithChildren returns what this process and those of its children that have ended have used so far.
func WithChildren(t testing.TB) time.Duration { return Own(t) + usedBy(t, syscall.RUSAGE_CHILDREN) }

func usedBy(t testing.TB, who int) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(who, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
