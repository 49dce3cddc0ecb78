// Package hang ends waits of tests that would have no end, and reports what was waited for and the state of things. It
// is for tests that await real processes on a real clock; it makes no passing test shorter.
package hang

import (
	"testing"
	"time"
)

// After is when a wait counts as one without an end. It is for hangs only: whatever is awaited takes seconds, also on a
// machine that does ten other things.
const After = 4 * time.Minute

// Receive returns what comes from a channel. When nothing does, the test fails with what was waited for and with the
// state of things, which state tells; nil tells nothing.
func Receive[T any](t testing.TB, what string, state func() string, from <-chan T) T {
	t.Helper()
	limit := time.NewTimer(After)
	defer limit.Stop()
	select {
	case came := <-from:
		return came
	case <-limit.C:
		told := ""
		if state != nil {
			told = "\n" + state()
		}
		t.Fatalf("%s: has not come for %v%s", what, After, told)
		panic("unreachable: Fatalf ends the goroutine")
	}
}

// Await returns what wait returns. One that can't be told to end, as the opening of a FIFO, is left behind when the test
// fails.
func Await[T any](t testing.TB, what string, state func() string, wait func() T) T {
	t.Helper()
	done := make(chan T, 1)
	go func() { done <- wait() }()
	return Receive(t, what, state, done)
}
