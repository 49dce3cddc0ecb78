package commands

import (
	"syscall"
	"unsafe"
)

// adoptOrphans does nothing here: only Linux can do that, and launchd reaps orphans.
func adoptOrphans() {}

// awaitChild blocks until a child has ended, and returns its number, without reaping it. ok is false if there is no
// child.
func awaitChild() (pid int, ok bool) {
	const anyChild, exited, keep = 0, 0x4, 0x20 // P_ALL, WEXITED, WNOWAIT of sys/wait.h
	var info [128]int32                         // siginfo_t has 104 bytes; si_pid is its fourth number
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, anyChild, 0, uintptr(unsafe.Pointer(&info)), exited|keep, 0, 0)
		switch errno {
		case 0:
			return int(info[3]), true
		case syscall.EINTR:
		default:
			return 0, false
		}
	}
}

// ticksNow and startTime return 0: it is not known here when a process started.
func ticksNow() uint64 { return 0 }

func startTime(int) uint64 { return 0 }

// orphans returns none: here orphans become children of launchd.
func orphans() []int { return nil }

func kinOf(int, string) kinship { return stranger }

func mayBeFirst(int) bool { return false }
