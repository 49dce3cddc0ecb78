package commandexecutor

import (
	"bytes"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tenderhq/tender/agent/proc"
	"github.com/tenderhq/tender/internal/protocol"
)

// adoptOrphans makes this process the parent of what its tasks orphan, so that it can
// wait for them; no init need do it, and none may be there.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// awaitChild blocks until a child has ended and names it, without reaping it. false:
// there is no child.
func awaitChild() (pid int, ok bool) {
	for {
		var info unix.Siginfo
		switch err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT, nil); err {
		case nil:
			return int(siginfoPID(&info)), true
		case unix.EINTR:
		default:
			return 0, false
		}
	}
}

// siginfoPID reads si_pid, which follows the three numbers of the head at the
// alignment of a pointer (siginfo_t of the kernel).
func siginfoPID(info *unix.Siginfo) int32 {
	const head = 3 * unsafe.Sizeof(int32(0))
	const align = unsafe.Sizeof(uintptr(0))
	return *(*int32)(unsafe.Add(unsafe.Pointer(info), (head+align-1)/align*align))
}

// orphans lists our children that are the main thread's: those that we adopted, which the kernel gives to it, and the
// tasks that it happened to fork. An unreadable list is empty: then only groups are looked at.
func orphans() []int {
	self := strconv.Itoa(os.Getpid())
	list, err := os.ReadFile("/proc/self/task/" + self + "/children")
	if err != nil {
		return nil
	}
	var pids []int
	for field := range bytes.FieldsSeq(list) {
		if pid, err := strconv.Atoi(string(field)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// kinOf tells whether the process was started with the sandbox as TENDER_TASK_SANDBOX. One that is ending has no
// environment any more; nor memory, unlike one that was started without an environment.
func kinOf(pid int, sandbox string) kinship {
	environment, known := proc.Environ(pid)
	if !known {
		return dying
	}
	mark := []byte(protocol.TaskSandboxEnv + "=" + sandbox)
	for variable := range bytes.SplitSeq(environment, []byte{0}) {
		if bytes.Equal(variable, mark) {
			return kin
		}
	}
	if len(environment) > 0 {
		return stranger
	}
	if memory, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm"); err != nil || !bytes.HasPrefix(memory, []byte("0 ")) {
		return stranger
	}
	return dying
}

// mayBeFirst tells whether the process may be the first one of a task: it leads a group of our session.
func mayBeFirst(pid int) bool {
	group, err := unix.Getpgid(pid)
	if err != nil || group != pid {
		return false
	}
	its, err := unix.Getsid(pid)
	ours, err2 := unix.Getsid(0)
	return err == nil && err2 == nil && its == ours
}

// startTime is when the process started, in clock ticks since boot: field 22 of its
// stat. 0: it has ended and was reaped.
func startTime(pid int) uint64 {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	var buffer [1024]byte
	n, err := unix.Read(fd, buffer[:])
	if err != nil {
		return 0
	}
	return parseStartTime(buffer[:n])
}

// parseStartTime reads field 22. Field 2 is the program's name in brackets and may hold
// anything, so fields are counted after the last bracket.
func parseStartTime(stat []byte) uint64 {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return 0
	}
	ticks, _ := strconv.ParseUint(string(fields[19]), 10, 64)
	return ticks
}
