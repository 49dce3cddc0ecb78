//go:build amd64 || arm64

package calls

import (
	"io"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// filtered does work as a user, on a thread with the filter. The work must not hand anything to other goroutines.
func filtered(t *testing.T, user int, work func()) {
	t.Helper()
	if err := Try(); err != nil {
		t.Skip(err)
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		done <- onThread(user, work)
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func onThread(user int, work func()) error {
	if user != os.Getuid() {
		if _, _, err := syscall.RawSyscall(unix.SYS_SETRESUID, uintptr(user), uintptr(user), uintptr(user)); err != 0 {
			return err
		}
	}
	err := Deny()
	if err == nil {
		work()
	}
	return err
}

// users returns the users as which the tests do their work.
func users() []int {
	if os.Getuid() != 0 {
		return []int{os.Getuid()}
	}
	return []int{0, 71234}
}

// Each call of the list fails with EPERM, whatever user makes it. So do calls that ask for namespaces; clone3 is
// missing.
func TestDenied(t *testing.T) {
	for _, user := range users() {
		filtered(t, user, func() {
			const wrong = ^uintptr(0) // arguments that do nothing, should a call not be denied
			for _, one := range denied {
				if _, _, err := syscall.RawSyscall6(uintptr(one.number), wrong, wrong, wrong, wrong, wrong, wrong); err != unix.EPERM {
					t.Errorf("user %d, %s: %v", user, one.name, err)
				}
			}
			for _, one := range []struct {
				name       string
				trap, flag uintptr
				want       syscall.Errno
			}{
				{"clone of a user namespace", unix.SYS_CLONE, unix.CLONE_NEWUSER | uintptr(syscall.SIGCHLD), unix.EPERM},
				{"clone of mounts", unix.SYS_CLONE, unix.CLONE_NEWNS | uintptr(syscall.SIGCHLD), unix.EPERM},
				{"clone with a wrong combination", unix.SYS_CLONE, unix.CLONE_SIGHAND, unix.EINVAL},
				{"unshare of a user namespace", unix.SYS_UNSHARE, unix.CLONE_NEWUSER, unix.EPERM},
				{"unshare of time", unix.SYS_UNSHARE, unix.CLONE_NEWTIME, unix.EPERM},
				{"unshare of files", unix.SYS_UNSHARE, unix.CLONE_FILES, 0},
				{"clone3", unix.SYS_CLONE3, 0, unix.ENOSYS},
				{"getpid", unix.SYS_GETPID, 0, 0},
			} {
				if _, _, err := syscall.RawSyscall(one.trap, one.flag, 0, 0); err != one.want {
					t.Errorf("user %d, %s: %v, want %v", user, one.name, err, one.want)
				}
			}
			if runtime.GOARCH == "amd64" {
				if _, _, err := syscall.RawSyscall(0x40000000|unix.SYS_GETPID, 0, 0, 0); err != unix.ENOSYS {
					t.Errorf("user %d, a call of x32: %v", user, err)
				}
			}
		})
	}
}

// Programs that are started have the filter too, and work with it.
func TestChildrenHaveTheFilter(t *testing.T) {
	for _, user := range users() {
		said, says, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		var pid int
		filtered(t, user, func() {
			line := `grep -h -E '^(Seccomp|NoNewPrivs):' /proc/self/status; (sleep 0; echo $(echo forks)) & wait`
			pid, err = syscall.ForkExec("/bin/sh", []string{"sh", "-c", line}, &syscall.ProcAttr{
				Env: []string{"PATH=/usr/bin:/bin"}, Files: []uintptr{0, says.Fd(), says.Fd()},
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		says.Close()
		text, err := io.ReadAll(said)
		if err != nil {
			t.Error(err)
		}
		said.Close()
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
			t.Error(err)
		}
		if got := string(text); got != "NoNewPrivs:\t1\nSeccomp:\t2\nforks\n" {
			t.Errorf("user %d: %s", user, got)
		}
	}
}

// The list is sorted, and names no call twice.
func TestTheListIsSorted(t *testing.T) {
	if !slices.IsSortedFunc(denied, func(a, b call) int { return int(a.number) - int(b.number) }) {
		t.Error(denied)
	}
	numbers := map[uint32]string{}
	for _, one := range denied {
		if twice := numbers[one.number]; twice != "" {
			t.Errorf("%s and %s have one number", twice, one.name)
		}
		numbers[one.number] = one.name
	}
	if !slices.ContainsFunc(denied, func(c call) bool { return c.name == "ptrace" }) {
		t.Error(denied)
	}
}
