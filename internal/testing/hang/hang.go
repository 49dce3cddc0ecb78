// Package hang ends waits of tests that would have no end, and reports what was waited for and the state of things. It
// is for tests that await real processes on a real clock; it makes no passing test shorter.
package hang

import (
	"testing"
	"time"
)

// After is the time after which a wait counts as endless. It is for hangs only: everything that is waited for takes
// seconds, also on a machine that does ten other things.
const After = 4 * time.Minute

// Receive returns what it receives from a channel. If nothing comes, the test fails with what was waited for and with
// the result of state, which may be nil.
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

// Await returns what wait returns. A wait that can't be interrupted, such as opening a FIFO, is left behind when the
// test fails.
func Await[T any](t testing.TB, what string, state func() string, wait func() T) T {
	t.Helper()
	done := make(chan T, 1)
	go func() { done <- wait() }()
	return Receive(t, what, state, done)
}
