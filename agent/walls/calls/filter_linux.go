//go:build amd64 || arm64

package calls

import (
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// call is a system call.
type call struct {
	name   string
	number uint32
}

// denied are the calls that always fail with EPERM.
var denied = sorted(slices.Concat(deniedHere, []call{
	// Modules, other kernels, and the machine as a whole.
	{"init_module", unix.SYS_INIT_MODULE},
	{"finit_module", unix.SYS_FINIT_MODULE},
	{"delete_module", unix.SYS_DELETE_MODULE},
	{"kexec_load", unix.SYS_KEXEC_LOAD},
	{"reboot", unix.SYS_REBOOT},
	{"swapon", unix.SYS_SWAPON},
	{"swapoff", unix.SYS_SWAPOFF},
	{"acct", unix.SYS_ACCT},
	{"quotactl", unix.SYS_QUOTACTL},
	{"quotactl_fd", unix.SYS_QUOTACTL_FD},
	{"settimeofday", unix.SYS_SETTIMEOFDAY},
	{"clock_settime", unix.SYS_CLOCK_SETTIME},
	{"sethostname", unix.SYS_SETHOSTNAME},
	{"setdomainname", unix.SYS_SETDOMAINNAME},
	{"syslog", unix.SYS_SYSLOG},
	{"vhangup", unix.SYS_VHANGUP},
	// Mounts.
	{"mount", unix.SYS_MOUNT},
	{"umount2", unix.SYS_UMOUNT2},
	{"pivot_root", unix.SYS_PIVOT_ROOT},
	{"open_tree", unix.SYS_OPEN_TREE},
	{"move_mount", unix.SYS_MOVE_MOUNT},
	{"fsopen", unix.SYS_FSOPEN},
	{"fsconfig", unix.SYS_FSCONFIG},
	{"fsmount", unix.SYS_FSMOUNT},
	{"fspick", unix.SYS_FSPICK},
	{"mount_setattr", unix.SYS_MOUNT_SETATTR},
	// Joining namespaces. Making new ones is judged in program.
	{"setns", unix.SYS_SETNS},
	// Other processes' memory and files, and files by their handles.
	{"ptrace", unix.SYS_PTRACE},
	{"process_vm_readv", unix.SYS_PROCESS_VM_READV},
	{"process_vm_writev", unix.SYS_PROCESS_VM_WRITEV},
	{"process_madvise", unix.SYS_PROCESS_MADVISE},
	{"pidfd_getfd", unix.SYS_PIDFD_GETFD},
	{"kcmp", unix.SYS_KCMP},
	{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT},
	{"fanotify_init", unix.SYS_FANOTIFY_INIT},
	{"lookup_dcookie", unix.SYS_LOOKUP_DCOOKIE},
	// Programs within the kernel (eBPF), its performance counters, ways around this very list, and its keys.
	{"bpf", unix.SYS_BPF},
	{"perf_event_open", unix.SYS_PERF_EVENT_OPEN},
	{"userfaultfd", unix.SYS_USERFAULTFD},
	{"io_uring_setup", unix.SYS_IO_URING_SETUP},
	{"io_uring_enter", unix.SYS_IO_URING_ENTER},
	{"io_uring_register", unix.SYS_IO_URING_REGISTER},
	{"add_key", unix.SYS_ADD_KEY},
	{"request_key", unix.SYS_REQUEST_KEY},
	{"keyctl", unix.SYS_KEYCTL},
}))

func sorted(calls []call) []call {
	slices.SortFunc(calls, func(a, b call) int { return int(a.number) - int(b.number) })
	return calls
}

// newNamespaces are the flags that ask for a namespace. The flag for a time namespace is not among them, because its
// bit means something else to clone.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// The offsets in struct seccomp_data of what the filter looks at. Arguments have 64 bits, with the lower half first on
// the machines that Tender runs on.
const (
	numberAt   = 0
	machineAt  = 4
	argumentAt = 16
)

// What the filter tells the kernel to do with a call.
const (
	allow   = unix.SECCOMP_RET_ALLOW
	refuse  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	missing = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	kill    = unix.SECCOMP_RET_KILL_PROCESS
)

// program returns the filter in the language of package bpf. A program for another kind of machine, such as one of 32
// bits, is killed, because its system calls have other numbers.
func program() []bpf.Instruction {
	all := []bpf.Instruction{
		bpf.LoadAbsolute{Off: machineAt, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: machine, SkipTrue: 1},
		bpf.RetConstant{Val: kill},
		bpf.LoadAbsolute{Off: numberAt, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: numbersEnd, SkipFalse: 1},
		bpf.RetConstant{Val: missing},
	}
	for _, one := range denied {
		all = append(all, bpf.JumpIf{Cond: bpf.JumpEqual, Val: one.number, SkipFalse: 1}, bpf.RetConstant{Val: refuse})
	}
	return append(all,
		// The flags of clone3 are in memory, which a filter can't read. Programs that find clone3 missing use clone.
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_CLONE3, SkipFalse: 1},
		bpf.RetConstant{Val: missing},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_CLONE, SkipFalse: 3},
		bpf.LoadAbsolute{Off: argumentAt, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: newNamespaces, SkipTrue: 4},
		bpf.RetConstant{Val: allow},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_UNSHARE, SkipFalse: 3},
		bpf.LoadAbsolute{Off: argumentAt, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: newNamespaces | unix.CLONE_NEWTIME, SkipFalse: 1},
		bpf.RetConstant{Val: refuse},
		bpf.RetConstant{Val: allow},
	)
}

// Filter returns the filter as prctl(PR_SET_SECCOMP) takes it. The kernel installs it for a thread that can get no new
// rights (no_new_privs).
func Filter() (*unix.SockFprog, error) {
	raw, err := bpf.Assemble(program())
	if err != nil {
		return nil, err
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, one := range raw {
		filter[i] = unix.SockFilter{Code: one.Op, Jt: one.Jt, Jf: one.Jf, K: one.K}
	}
	return &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}, nil
}

// Deny denies the calls to the calling thread and to all that it starts, for ever. The thread must be locked to its
// goroutine.
func Deny() error {
	filter, err := Filter()
	if err == nil {
		err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	}
	if err == nil {
		err = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(filter)), 0, 0)
	}
	if err != nil {
		return fmt.Errorf("system calls can't be denied: %w", err)
	}
	return nil
}

// Try says why calls can't be denied on this machine, or nil.
func Try() error {
	action := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, err := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	if err != 0 {
		return fmt.Errorf("system calls can't be denied: this kernel has no filters of them, or is older than 4.14: %w", err)
	}
	return nil
}
