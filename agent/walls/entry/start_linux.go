package entry

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Start starts a child that never gets more rights than it begins with, whatever programs it runs (no_new_privs), nor
// do its own children. The kernel keeps that for each thread and never takes it back, so the start has a thread of its
// own, which ends with it; so may what else start gives up for the child.
func Start(start func() error) (err error) {
	OnThread(func() (asBefore bool) {
		_ = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) // every kernel since 3.5 can
		err = start()
		return false
	})
	return err
}

// OnThread does work on a thread that the work has for itself. The thread is used again when the work says that it is as
// it was before; else it ends. It is never the first one, which stands for the whole process in /proc and can't end before
// it: Go keeps that thread for ever as the work has left it.
func OnThread(work func() (asBefore bool)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		asBefore := true
		if unix.Gettid() == os.Getpid() {
			OnThread(work) // on another one: this one is taken
		} else {
			asBefore = work()
		}
		if asBefore {
			runtime.UnlockOSThread()
		}
	}()
	<-done
}
