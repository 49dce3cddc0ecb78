package spaces

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// life is all that a helper does, laid down in a room before it is born. A helper is a fork of the spawner that executes
// no program: Go's runtime takes milliseconds to start in a new process, a fork of a small one takes a tenth of that. But
// of all threads only one is forked, and of Go's memory little more than the stack that the fork is made on (see lean), so
// a helper must never enter the runtime. What runs in it calls the kernel and nothing else, allocates nothing, and finds
// room on the stack as it is (the linker proves that of functions marked nosplit). Package syscall forks in the same way
// until it executes a program, and gVisor has processes that live so.
type life struct {
	born    cloneArguments // how the helper is made
	joins   []int          // files of control groups, open
	files   [3]int         // the program's, open
	report  int            // to the spawner and from it, open
	ends    int            // where the end of the program is told, open
	calls   []call         // the steps
	program *executed      // nil: the steps are tried, and that is all
	stop    syscall.Signal // what the program is sent for SIGTERM
	beside  bool           // it is ended by any signal, with its group

	name   [16]byte
	said   [2]uint32 // to the spawner: what was done last, and the kernel's word
	group  int       // of the program
	status uint32    // as the kernel has it
	signal [128]byte // siginfo_t
	record [recordBytes]byte
}

// executed is the program.
type executed struct {
	path, folder *byte
	argv, env    []*byte
	become       bool // somebody else than the helper
	uid, gid     uintptr
	groups       []uint32
}

// cloneArguments are struct clone_args of the kernel.
type cloneArguments struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

// The helper's descriptors, beside the three that are the program's. Those that the spawner has for it lie above.
const (
	reportFD = 3 + iota
	endsFD
	strangeFD // and all above, which it closes
	openedFD  = 16
)

// What a helper says in the place of a step.
const (
	begun   = 1<<32 - 1 - iota // the program was executed
	refused                    // the kernel does not execute the program
	unborn                     // the kernel makes no process for the program
	astray                     // the control groups can't be entered
)

// allSignals is the set of them, as the kernel has it.
var allSignals = ^uint64(0)

// resetSignals has the kernel forget, in a process that it makes, what Go does at signals (CLONE_CLEAR_SIGHAND).
const resetSignals = 1 << 32

// These have Go's runtime leave the calling thread alone over a fork, and keep all signals from it. It keeps them open to
// gVisor, and so to us.

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

func vforkCall(trap, a1, a2, a3 uintptr) (r1 uintptr, err syscall.Errno)

// begin makes the helper, and returns its number as the caller sees it. It is a fork of the calling goroutine's thread,
// which must be its own, with all that the thread is a part of. All signals wait for the helper until it asks for them.
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
	beforeFork()
	takeAlong()
	pid, _, err := syscall.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&l.born)), unsafe.Sizeof(l.born), 0)
	if err != 0 || pid != 0 {
		afterFork()
		return int(pid), err
	}
	l.live()
	return 0, 0 // never
}

// live is a helper from its birth to its end.
//
//go:noinline
//go:norace
//go:nosplit
func (l *life) live() {
	l.settle()
	l.takeSteps()
	if l.program == nil {
		l.say(begun, 0)
		exit(0)
	}
	pid, err := vforkCall(unix.SYS_CLONE, unix.CLONE_VFORK|unix.CLONE_VM|uintptr(syscall.SIGCHLD), 0, 0)
	if err != 0 {
		l.say(unborn, err)
		exit(1)
	}
	if pid == 0 {
		l.say(refused, l.program.execute())
		exit(1)
	}
	l.group = int(pid)
	l.say(begun, 0) // or it has said itself that it was refused: that comes first
	_, _, _ = syscall.RawSyscall(unix.SYS_CLOSE_RANGE, 0, reportFD, 0)
	for !l.collect() {
		number, _, err := syscall.RawSyscall6(unix.SYS_RT_SIGTIMEDWAIT, uintptr(unsafe.Pointer(&allSignals)), uintptr(unsafe.Pointer(&l.signal)), 0, 8, 0, 0)
		if err == 0 {
			l.pass(syscall.Signal(number))
		}
	}
	l.end()
}

// settle takes the helper where it belongs, with the files that are its own and no others.
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
			exit(1)
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

// takeSteps calls the kernel as it was laid down.
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
			exit(1)
		}
		last = got // -1, which is no file, for what has failed
	}
}

// execute becomes the program. It returns the kernel's word when that is refused.
//
//go:noinline
//go:norace
//go:nosplit
func (p *executed) execute() syscall.Errno {
	_, _, _ = syscall.RawSyscall(unix.SYS_SETPGID, 0, 0, 0)
	if p.become {
		groups := uintptr(0)
		if len(p.groups) > 0 {
			groups = uintptr(unsafe.Pointer(&p.groups[0]))
		}
		if _, _, err := syscall.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(p.groups)), groups, 0); err != 0 {
			return err
		}
		if _, _, err := syscall.RawSyscall(unix.SYS_SETGID, p.gid, 0, 0); err != 0 {
			return err
		}
		if _, _, err := syscall.RawSyscall(unix.SYS_SETUID, p.uid, 0, 0); err != 0 {
			return err
		}
	}
	if _, _, err := syscall.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(p.folder)), 0, 0); err != 0 {
		return err
	}
	none := uint64(0)
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&none)), 0, 8, 0, 0)
	_, _, err := syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(p.path)), uintptr(unsafe.Pointer(&p.argv[0])), uintptr(unsafe.Pointer(&p.env[0])))
	return err
}

// pass passes a signal on. What is beside a task is only ever to be ended.
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

// collect waits for what has ended: the program, which it returns, and all that it has orphaned so far.
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

// end tells how the program has ended. What it has left beside a task is killed; in walls of its own the kernel does it.
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
	exit(code)
}

// say tells the spawner how far the helper came.
//
//go:noinline
//go:norace
//go:nosplit
func (l *life) say(what uint32, err syscall.Errno) {
	l.said[0], l.said[1] = what, uint32(err)
	_, _, _ = syscall.RawSyscall(unix.SYS_WRITE, reportFD, uintptr(unsafe.Pointer(&l.said)), unsafe.Sizeof(l.said))
}

//go:noinline
//go:norace
//go:nosplit
func exit(code uintptr) {
	for {
		_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, code, 0, 0)
	}
}
