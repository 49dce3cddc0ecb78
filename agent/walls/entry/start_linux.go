package entry

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Start starts a child that never gets more rights than it begins with, whatever programs it runs (no_new_privs), nor
// do its own children. The kernel keeps that for each thread and never takes it back, so the start has a thread of its
// own, which ends with it; so may what else start gives up for the child.
func Start(start func() error) error {
	return onThreadOfItsOwn(func() error {
		_ = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) // every kernel since 3.5 can
		return start()
	})
}

// onThreadOfItsOwn does work on a thread that ends with it. It is never the first one, which stands for the whole process
// in /proc and can't end before it.
func onThreadOfItsOwn(work func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked
		if unix.Gettid() == os.Getpid() {
			done <- onThreadOfItsOwn(work) // on another one: this one is taken
			runtime.UnlockOSThread()
			return
		}
		done <- work()
	}()
	return <-done
}
