package entry

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Start calls start to start a child that never gets more rights than it begins with, whatever programs it runs
// (no_new_privs); the same holds for its own children. The kernel keeps that for each thread and never takes it back,
// so start is called on a thread that ends afterwards. So start may give up other rights of its thread, too, for the
// child.
func Start(start func() error) (err error) {
	OnThread(func() (asBefore bool) {
		_ = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) // every kernel since 3.5 can do that
		err = start()
		return false
	})
	return err
}

// OnThread does work on a thread that nothing else uses meanwhile. If the work says that the thread is as it was
// before, the thread is used again; else it ends. The work is never done on the first thread of the process, which
// stands for the whole process in /proc and can't end before it: Go would keep that thread for ever as the work has
// left it.
func OnThread(work func() (asBefore bool)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		asBefore := true
		if unix.Gettid() == os.Getpid() {
			OnThread(work) // on another thread: this one is locked
		} else {
			asBefore = work()
		}
		if asBefore {
			runtime.UnlockOSThread()
		}
	}()
	<-done
}
