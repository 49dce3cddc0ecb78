package spaces

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tenderhq/tender/agent/walls/calls"
)

// step is a system call that the helper has to make itself, as it concerns the process that makes it.
type step struct {
	call
	what    string            // for people, when it fails
	points  [arguments][]byte // what arguments point to; nil: the argument is a number
	filters []unix.SockFilter // what an argument points to that is a unix.SockFprog
}

// arguments is how many arguments a step has at most.
const arguments = 5

// call is a step as the kernel sees it.
type call struct {
	trap      uintptr
	arguments [arguments]uintptr
	chained   bool       // the first argument is what the step before has returned
	forgiven  unix.Errno // this error does not count as a failure
	optional  bool       // no error counts as a failure
}

// point makes an argument a pointer to a text.
func (s *step) point(argument int, text string) { s.points[argument] = append([]byte(text), 0) }

// bytesOf returns the bytes of a value that has no pointers.
func bytesOf[T any](value *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(value)), unsafe.Sizeof(*value))
}

// mountStep returns a step that is mount(2).
func mountStep(what, source, target, kind string, flags uintptr) step {
	s := step{what: what, call: call{trap: unix.SYS_MOUNT}}
	s.point(0, source)
	s.point(1, target)
	s.point(2, kind)
	s.arguments[3] = flags
	return s
}

// readOnlyAttribute is what makes a mount read-only.
var readOnlyAttribute = unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}

// readOnlyStep returns a step that makes the mount at a path read-only, by mount_setattr(2).
func readOnlyStep(what, path string) step {
	const here = unix.AT_FDCWD
	at := here // a variable, because a negative constant can't be converted
	s := step{what: what, call: call{trap: unix.SYS_MOUNT_SETATTR}}
	s.arguments[0], s.arguments[4] = uintptr(at), unsafe.Sizeof(readOnlyAttribute)
	s.point(1, path)
	s.points[3] = bytesOf(&readOnlyAttribute)
	return s
}

// writeSteps returns the steps that write a text to a file. It does not matter if they fail.
func writeSteps(path, text string) []step {
	at := unix.AT_FDCWD
	open := step{call: call{trap: unix.SYS_OPENAT, arguments: [arguments]uintptr{0: uintptr(at), 2: unix.O_WRONLY | unix.O_CLOEXEC}, optional: true}}
	open.point(1, path)
	write := step{call: call{trap: unix.SYS_WRITE, chained: true, arguments: [arguments]uintptr{2: uintptr(len(text))}, optional: true}}
	write.point(1, text)
	return []step{open, write}
}

// denyStep returns the step that denies system calls to the helper and to all that it starts.
func denyStep() (step, error) {
	filter, err := calls.Filter()
	if err != nil {
		return step{}, err
	}
	return step{
		what: "system calls can't be denied", filters: unsafe.Slice(filter.Filter, filter.Len),
		call: call{trap: unix.SYS_PRCTL, arguments: [arguments]uintptr{unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER}},
	}, nil
}

// readOnly are those parts of /proc by which root can control the kernel. Not every kernel has all of them.
var readOnly = []string{"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"}

// renewProc returns the steps that mount /proc anew, so that it shows the processes of the PID namespace that it is
// mounted from, and that make its dangerous parts read-only, so that tasks of root can't control the kernel by them.
func renewProc() []step {
	steps := []step{mountStep("/proc can't be mounted", "proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC)}
	for _, path := range readOnly {
		what := path + " can't be protected"
		bind, protect := mountStep(what, path, path, "", unix.MS_BIND), readOnlyStep(what, path)
		bind.forgiven, protect.forgiven = unix.ENOENT, unix.ENOENT
		steps = append(steps, bind, protect)
	}
	return steps
}
