package spaces

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tenderhq/tender/agent/walls/birth"
)

// life is all that a helper does, written down before the helper is forked. A helper is a fork of the spawner that
// executes no program: starting Go's runtime in a new process takes milliseconds, forking a small process a tenth of
// that. But a fork has only the thread that made it, and a helper has little more of Go's memory than the stack of that
// thread (see lean). So a helper must never enter the runtime: its functions make system calls and nothing else,
// allocate nothing, and need no larger stack (of functions marked nosplit the linker proves that). Package syscall runs
// such code between fork and exec, and some of gVisor's processes run nothing else.
type life struct {
	born    birth.CloneArguments // how the helper is made
	joins   []int                // files of control groups, open
	files   [3]int               // the program's, open
	report  int                  // to the spawner and from it, open
	ends    int                  // the pipe on which it tells how the program has ended, open
	calls   []call               // the steps
	program *birth.Program       // nil: only the steps are to be tried
	stop    syscall.Signal       // what the program is sent instead of SIGTERM, unless zero
	beside  bool                 // started beside a task that runs: any signal kills its program, with the process group

	name   [16]byte
	said   [2]uint32 // to the spawner: the step that was taken last, and the kernel's error
	group  int       // process group of the program
	status uint32    // wait status of the program
	signal [128]byte // siginfo_t
	record [recordBytes]byte
}

// The helper's file descriptors, beside the three standard files of the program. The spawner opens everything above
// openedFD, so that the helper can set these without overwriting what it still needs.
const (
	reportFD = 3 + iota
	endsFD
	strangeFD // the helper closes this one and all above
	openedFD  = 16
)

// What a helper may say instead of the number of a step that has failed.
const (
	begun   = 1<<32 - 1 - iota // the program was executed
	refused                    // the kernel does not execute the program
	unborn                     // the kernel makes no process for the program
	astray                     // the control groups can't be entered
)

// allSignals is the set of all signals, as the kernel reads sets.
var allSignals = ^uint64(0)

// begin forks the helper from the calling thread, and returns the helper's process number as the caller sees it. The
// goroutine must be locked to its thread, as the helper is in the namespaces that this thread is in. All signals of the
// helper are blocked, and wait until it asks for them.
func (l *life) begin() (pid int, err error) {
	copy(l.name[:], Helper)
	pid, wrong := l.fork()
	if wrong != 0 {
		return 0, fmt.Errorf("namespaces can't be made: %w", wrong)
	}
	return pid, nil
}

//go:noinline
//go:norace
//go:nosplit
func (l *life) fork() (int, syscall.Errno) {
	birth.BeforeFork()
	takeAlong()
	pid, _, err := syscall.RawSyscall(birth.SysClone3, uintptr(unsafe.Pointer(&l.born)), unsafe.Sizeof(l.born), 0)
	if err != 0 || pid != 0 {
		birth.AfterFork()
		return int(pid), err
	}
	l.live()
	return 0, 0 // never
}

// live is what the helper does, from the fork to its end.
//
//go:noinline
//go:norace
//go:nosplit
func (l *life) live() {
	l.settle()
	l.takeSteps()
	if l.program == nil {
		l.say(begun, 0)
		birth.Exit(0)
	}
	pid, err := birth.Vfork(unix.SYS_CLONE, unix.CLONE_VFORK|unix.CLONE_VM|uintptr(syscall.SIGCHLD), 0, 0)
	if err != 0 {
		l.say(unborn, err)
		birth.Exit(1)
	}
	if pid == 0 {
		l.say(refused, l.program.Execute())
		birth.Exit(1)
	}
	l.group = int(pid)
	l.say(begun, 0) // if the kernel has refused the program, that was said before, and only what is said first counts
	_, _, _ = syscall.RawSyscall(unix.SYS_CLOSE_RANGE, 0, reportFD, 0)
	for !l.collect() {
		number, _, err := syscall.RawSyscall6(unix.SYS_RT_SIGTIMEDWAIT, uintptr(unsafe.Pointer(&allSignals)), uintptr(unsafe.Pointer(&l.signal)), 0, 8, 0, 0)
		if err == 0 {
			l.pass(syscall.Signal(number))
		}
	}
	l.end()
}

// settle moves the helper into its control groups, arranges its file descriptors and closes all others, and reads its
// process number from the spawner.
//
//go:noinline
//go:norace
//go:nosplit
func (l *life) settle() {
	zero := byte('0')
	for i := range l.joins {
		if _, _, err := syscall.RawSyscall(unix.SYS_WRITE, uintptr(l.joins[i]), uintptr(unsafe.Pointer(&zero)), 1); err != 0 {
			_, _, _ = syscall.RawSyscall(unix.SYS_DUP3, uintptr(l.report), reportFD, unix.O_CLOEXEC)
			l.say(astray, err)
			birth.Exit(1)
		}
	}
	for i := range l.files {
		_, _, _ = syscall.RawSyscall(unix.SYS_DUP3, uintptr(l.files[i]), uintptr(i), 0)
	}
	_, _, _ = syscall.RawSyscall(unix.SYS_DUP3, uintptr(l.report), reportFD, unix.O_CLOEXEC)
	_, _, _ = syscall.RawSyscall(unix.SYS_DUP3, uintptr(l.ends), endsFD, unix.O_CLOEXEC)
	_, _, _ = syscall.RawSyscall(unix.SYS_CLOSE_RANGE, strangeFD, 1<<32-1, 0)
	_, _, _ = syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_NAME, uintptr(unsafe.Pointer(&l.name)), 0)
	_, _, _ = syscall.RawSyscall(unix.SYS_SETPGID, 0, 0, 0)
	_, _, _ = syscall.RawSyscall(unix.SYS_READ, reportFD, uintptr(unsafe.Pointer(&l.record)), 8) // its number, which only the spawner knows
}

// takeSteps makes the system calls of the steps, in order.
//
//go:noinline
//go:norace
//go:nosplit
func (l *life) takeSteps() {
	last := uintptr(0)
	for i := range l.calls {
		one := &l.calls[i]
		if one.chained {
			one.arguments[0] = last
		}
		got, _, err := syscall.RawSyscall6(one.trap, one.arguments[0], one.arguments[1], one.arguments[2], one.arguments[3], one.arguments[4], 0)
		if err != 0 && err != one.forgiven && !one.optional {
			l.say(uint32(i), err)
			birth.Exit(1)
		}
		last = got // -1, which is no file, for what has failed
	}
}

// pass sends the program a signal that the helper has got. A program beside a task is killed instead: its helper gets a
// signal only when it is to end.
//
//go:noinline
//go:norace
//go:nosplit
func (l *life) pass(number syscall.Signal) {
	switch number {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT:
	default:
		return
	}
	if number == syscall.SIGTERM && l.stop != 0 {
		number = l.stop
	}
	if l.beside {
		number = syscall.SIGKILL
	}
	_, _, _ = syscall.RawSyscall(unix.SYS_KILL, uintptr(-l.group), uintptr(number), 0)
}

// collect reaps children that have ended: the program, and orphans of the program that became the helper's children. It
// reports whether the program was among them.
//
//go:noinline
//go:norace
//go:nosplit
func (l *life) collect() (ended bool) {
	whom := -1
	if l.beside {
		whom = l.group
	}
	for {
		got, _, err := syscall.RawSyscall6(unix.SYS_WAIT4, uintptr(whom), uintptr(unsafe.Pointer(&l.status)), unix.WNOHANG, 0, 0, 0)
		if err == syscall.ECHILD || int(got) == l.group {
			return true
		}
		if err != 0 || got == 0 {
			return false
		}
	}
}

// end tells the executor how the program has ended, and ends the helper. The kernel then kills all that is left in the
// task's PID namespace; what a program beside a task has left in its process group is killed here.
//
//go:noinline
//go:norace
//go:nosplit
func (l *life) end() {
	if l.beside {
		_, _, _ = syscall.RawSyscall(unix.SYS_KILL, uintptr(-l.group), uintptr(syscall.SIGKILL), 0)
	}
	for i := range 4 {
		l.record[8+i] = byte(l.status >> (8 * i))
	}
	for {
		if _, _, err := syscall.RawSyscall(unix.SYS_WRITE, endsFD, uintptr(unsafe.Pointer(&l.record)), recordBytes); err != syscall.EINTR {
			break
		}
	}
	code := uintptr(l.status >> 8 & 0xff)
	if signal := l.status & 0x7f; signal != 0 {
		code = uintptr(128 + signal)
	}
	birth.Exit(code)
}

// say tells the spawner how far the helper has come.
//
//go:noinline
//go:norace
//go:nosplit
func (l *life) say(what uint32, err syscall.Errno) {
	l.said[0], l.said[1] = what, uint32(err)
	_, _, _ = syscall.RawSyscall(unix.SYS_WRITE, reportFD, uintptr(unsafe.Pointer(&l.said)), unsafe.Sizeof(l.said))
}
