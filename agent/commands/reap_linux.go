package commands

import (
	"bytes"
	"os"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tenderhq/tender/agent/proc"
	"github.com/tenderhq/tender/internal/protocol"
)

// adoptOrphans makes this process the parent of orphans of its tasks, so that it can reap them. It does not rely on an
// init process, which may not be there.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// awaitChild blocks until a child has ended, and returns its number, without reaping it. ok is false if there is no
// child.
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

// siginfoPID returns si_pid of the kernel's siginfo_t. It follows the first three numbers, at the alignment of a
// pointer.
func siginfoPID(info *unix.Siginfo) int32 {
	const head = 3 * unsafe.Sizeof(int32(0))
	const align = unsafe.Sizeof(uintptr(0))
	return *(*int32)(unsafe.Add(unsafe.Pointer(info), (head+align-1)/align*align))
}

// orphans returns the children of our main thread. These are the adopted ones, which the kernel gives to that thread,
// and tasks that the thread happened to fork. If the list can't be read it is empty, and only process groups are looked
// at.
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

// kinOf says whether the process was started with the sandbox as TENDER_TASK_SANDBOX. A process that is ending has no
// environment any more, but no memory either, which tells it from one that was started without an environment.
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

// mayBeFirst reports whether the process may be the first one of a task, which leads a process group in our session.
func mayBeFirst(pid int) bool {
	group, err := unix.Getpgid(pid)
	if err != nil || group != pid {
		return false
	}
	its, err := unix.Getsid(pid)
	ours, err2 := unix.Getsid(0)
	return err == nil && err2 == nil && its == ours
}

// ticksNow returns how many clock ticks have passed since boot.
func ticksNow() uint64 {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return 0 // every kernel since 2.6.39 tells
	}
	return uint64(now.Nano()) * proc.TicksPerSecond / uint64(time.Second)
}

// startTime returns when the process started, in clock ticks since boot, from field 22 of its stat. It returns 0 if the
// process has ended and was reaped.
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
