package entry

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Start starts a child that never gets more rights than it begins with, whatever programs it runs (no_new_privs), nor
// do its own children. The kernel keeps that for each thread and never takes it back, so the start has a thread of its
// own, which ends with it.
func Start(start func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		_ = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) // every kernel since 3.5 can
		done <- start()
	}()
	return <-done
}
