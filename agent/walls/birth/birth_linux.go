package birth

import (
	"sync"
	"syscall"
	"unsafe"
)

// Process starts the program as the leader of a process group of its own, and returns its number. Without an error the
// program was executed. If the kernel has refused that, the error is the kernel's.
//
// It does what package syscall does for such a start, except that the child enters groups; that it tells by memory, which
// it shares until then, why it could not execute the program; and that the kernel forgets the handlers of signals for it,
// instead of one call for each.
func (s Start) Process() (pid int, err error) {
	c := child{files: s.Files, joins: s.Groups.Entrance}
	if s.Groups.Folder > 0 {
		c.born = CloneArguments{
			Flags: syscall.CLONE_VFORK | syscall.CLONE_VM | ResetSignals | intoGroup, ExitSignal: uint64(syscall.SIGCHLD), Group: uint64(s.Groups.Folder),
		}
	}
	for _, file := range s.Files {
		if file < uintptr(len(s.Files)) {
			return 0, syscall.EBADF
		}
	}
	if c.program, err = s.program(); err != nil {
		return 0, err
	}
	pid, wrong := c.fork()
	if wrong != 0 {
		return 0, wrong
	}
	if c.wrong == 0 {
		return pid, nil
	}
	await(pid)
	if c.astray {
		return 0, &AstrayError{c.wrong}
	}
	return 0, c.wrong
}

// program writes the program down as the kernel takes it.
func (s Start) program() (p Program, err error) {
	if p.Path, err = syscall.BytePtrFromString(s.Path); err != nil {
		return p, err
	}
	if p.Folder, err = syscall.BytePtrFromString(s.Folder); err != nil {
		return p, err
	}
	if p.Argv, err = syscall.SlicePtrFromStrings(s.Argv); err != nil {
		return p, err
	}
	if p.Env, err = syscall.SlicePtrFromStrings(s.Env); err != nil {
		return p, err
	}
	if s.User != nil {
		p.Become, p.UID, p.GID, p.Groups = true, uintptr(s.User.Uid), uintptr(s.User.Gid), s.User.Groups
	}
	p.OpenFiles = OpenFiles()
	return p, nil
}

// OpenFiles returns the limit of open files that programs are to have, as this process had it when it was started. Go
// raises it for its own process, to one less than the most that is allowed, and package syscall restores it for programs
// that it starts. Nil: Go has not raised it. The first call finds it out: it starts a program by package syscall and asks
// for the program's limit. Nobody else may wait for children of this process until then.
var OpenFiles = sync.OnceValue(func() *syscall.Rlimit {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil || limit.Cur != limit.Max-1 {
		return nil
	}
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", ":"}, nil)
	if err != nil {
		return nil
	}
	_, _, wrong := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), syscall.RLIMIT_NOFILE, 0, uintptr(unsafe.Pointer(&limit)), 0, 0)
	await(pid) // also of one that has ended the kernel has told, as nobody had waited for it
	if wrong != 0 {
		return nil
	}
	return &limit
})

// await waits for a child.
func await(pid int) {
	for {
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR { // else another goroutine has waited for it
			return
		}
	}
}

// Program is a program as the kernel takes it.
type Program struct {
	Path, Folder *byte
	Argv, Env    []*byte // each ends with nil
	Become       bool    // set user and groups: only a child of root can
	UID, GID     uintptr
	Groups       []uint32
	OpenFiles    *syscall.Rlimit // nil: it keeps the limit
}

// CloneArguments are struct clone_args of the kernel.
type CloneArguments struct {
	Flags, PIDFD, ChildTID, ParentTID, ExitSignal, Stack, StackSize, TLS, SetTID, SetTIDSize, Group uint64
}

const (
	// ResetSignals is the flag CLONE_CLEAR_SIGHAND of clone3(2): in the process that it makes, the kernel removes the
	// signal handlers of Go's runtime.
	ResetSignals = 1 << 32
	intoGroup    = 1 << 33 // CLONE_INTO_CGROUP
	// SysClone3 is the number of clone3(2), the same on all machines.
	SysClone3 = 435
)

// child is a process between its fork and its program. It shares the memory of this process, and the thread that has
// forked it waits. It must never enter Go's runtime: its functions make system calls and nothing else, allocate nothing,
// and need no larger stack.
type child struct {
	program Program
	born    CloneArguments // zero: it is made by the older call, which all kernels have
	joins   []int
	files   [3]uintptr
	astray  bool          // it could not enter its groups
	wrong   syscall.Errno // why it has executed nothing
	none    [4]uint64     // what a signal does by default, as the kernel reads it
	has     [4]uint64
}

// BeforeFork has Go's runtime block all signals of the calling thread, and not preempt it, until AfterFork. The runtime
// keeps the names of both for gVisor, so they stay.
//
//go:linkname BeforeFork syscall.runtime_BeforeFork
func BeforeFork()

// AfterFork ends what BeforeFork has begun, in the parent.
//
//go:linkname AfterFork syscall.runtime_AfterFork
func AfterFork()

// Vfork makes a system call that returns twice, with the same memory: first in the child, and when that has executed a
// program or has ended also in the parent.
func Vfork(trap, a1, a2, a3 uintptr) (r1 uintptr, err syscall.Errno)

//go:noinline
//go:norace
//go:nocheckptr
func (c *child) fork() (int, syscall.Errno) {
	var pid uintptr
	var err syscall.Errno
	BeforeFork()
	if c.born.Flags != 0 {
		pid, err = Vfork(SysClone3, uintptr(unsafe.Pointer(&c.born)), unsafe.Sizeof(c.born), 0)
	} else {
		pid, err = Vfork(syscall.SYS_CLONE, syscall.CLONE_VFORK|syscall.CLONE_VM|uintptr(syscall.SIGCHLD), 0, 0)
	}
	if err != 0 || pid != 0 {
		AfterFork()
		return int(pid), err
	}
	c.live()
	return 0, 0 // never
}

// live is what the child does until it has executed its program, or ends.
//
//go:noinline
//go:norace
//go:nosplit
func (c *child) live() {
	if c.born.Flags == 0 {
		c.resetSignals()
	}
	if c.wrong = c.join(); c.wrong != 0 {
		c.astray = true
		Exit(1)
	}
	for i := range c.files {
		if _, _, err := syscall.RawSyscall(syscall.SYS_DUP3, c.files[i], uintptr(i), 0); err != 0 {
			c.wrong = err
			Exit(1)
		}
	}
	c.wrong = c.program.Execute()
	Exit(1)
}

//go:noinline
//go:norace
//go:nosplit
func (c *child) join() syscall.Errno {
	zero := byte('0')
	for i := range c.joins {
		if _, _, err := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(c.joins[i]), uintptr(unsafe.Pointer(&zero)), 1); err != 0 {
			return err
		}
	}
	return 0
}

// resetSignals has each signal do what it does by default, unless it is ignored.
//
//go:noinline
//go:norace
//go:nosplit
func (c *child) resetSignals() {
	const signals, ignored, setBytes = 64, 1, 8
	for number := uintptr(1); number <= signals; number++ {
		_, _, err := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, number, 0, uintptr(unsafe.Pointer(&c.has)), setBytes, 0, 0)
		if err == 0 && c.has[0] != ignored {
			_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, number, uintptr(unsafe.Pointer(&c.none)), 0, setBytes, 0, 0)
		}
	}
}

// Execute makes the calling process, which has no threads and all signals blocked, the leader of a process group, and its
// program's user, and executes the program. It returns only when the kernel refuses one of these, with the kernel's
// error.
//
//go:noinline
//go:norace
//go:nosplit
func (p *Program) Execute() syscall.Errno {
	_, _, _ = syscall.RawSyscall(syscall.SYS_SETPGID, 0, 0, 0)
	if p.Become {
		groups := uintptr(0)
		if len(p.Groups) > 0 {
			groups = uintptr(unsafe.Pointer(&p.Groups[0]))
		}
		if _, _, err := syscall.RawSyscall(syscall.SYS_SETGROUPS, uintptr(len(p.Groups)), groups, 0); err != 0 {
			return err
		}
		if _, _, err := syscall.RawSyscall(syscall.SYS_SETGID, p.GID, 0, 0); err != 0 {
			return err
		}
		if _, _, err := syscall.RawSyscall(syscall.SYS_SETUID, p.UID, 0, 0); err != 0 {
			return err
		}
	}
	if _, _, err := syscall.RawSyscall(syscall.SYS_CHDIR, uintptr(unsafe.Pointer(p.Folder)), 0, 0); err != 0 {
		return err
	}
	if p.OpenFiles != nil {
		_, _, _ = syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, syscall.RLIMIT_NOFILE, uintptr(unsafe.Pointer(p.OpenFiles)), 0, 0, 0)
	}
	none := uint64(0)
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, sigSetmask, uintptr(unsafe.Pointer(&none)), 0, 8, 0, 0)
	_, _, err := syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(p.Path)), uintptr(unsafe.Pointer(&p.Argv[0])), uintptr(unsafe.Pointer(&p.Env[0])))
	return err
}

const sigSetmask = 2

// Exit ends the calling process.
//
//go:noinline
//go:norace
//go:nosplit
func Exit(code uintptr) {
	for {
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, code, 0, 0)
	}
}
