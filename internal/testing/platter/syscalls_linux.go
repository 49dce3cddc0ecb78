package platter

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What a process syncs is seen at its system calls, below all libraries that it uses: the kernel stops a thread in front
// of fsync and fdatasync, and asks the parent.

// Report has the kernel report each sync of this process, and sends the parent the descriptor from which it reads them.
// It is called once, before the files are opened; socket is one end of a Unix socket.
func Report(socket *os.File) error {
	runtime.LockOSThread() // no_new_privs is that of a thread, and passed on to all by the call below
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	load := unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS} // the number of the call
	equals := func(number uint32, jump uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: jump, K: number}
	}
	answer := func(with uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: with} }
	filter := []unix.SockFilter{load, equals(unix.SYS_FSYNC, 2), equals(unix.SYS_FDATASYNC, 1),
		answer(unix.SECCOMP_RET_ALLOW), answer(unix.SECCOMP_RET_USER_NOTIF)}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	const flags = unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH
	fd, _, failed := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program)))
	if failed != 0 {
		return fmt.Errorf("system calls can't be reported: %w", failed)
	}
	return errors.Join(unix.Sendmsg(int(socket.Fd()), []byte{0}, unix.UnixRights(int(fd)), nil, 0), unix.Close(int(fd)))
}

// notification and response are the kernel's seccomp_notif and seccomp_notif_resp.
type (
	notification struct {
		id           uint64
		pid, flags   uint32
		number, arch uint32
		at           uint64
		args         [6]uint64
	}
	response struct {
		id    uint64
		value int64
		err   int32
		flags uint32
	}
)

const (
	receive = 0xc0502100 // SECCOMP_IOCTL_NOTIF_RECV
	respond = 0xc0182101 // SECCOMP_IOCTL_NOTIF_SEND
)

// Follow writes what the process at the other end of the socket syncs below the folder, until that process has ended.
// Before each sync it calls before: whatever is not on the platter by then is lost if the power is lost there.
func (p *Platter) Follow(socket *os.File, folder string, before func() error) error {
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(int(socket.Fd()), make([]byte, 1), control, 0)
	if err != nil {
		return err
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil {
		return err
	}
	if len(messages) != 1 {
		return errors.New("the process ended before it reported anything")
	}
	rights, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return err
	}
	defer unix.Close(rights[0])
	for {
		waits := []unix.PollFd{{Fd: int32(rights[0]), Events: unix.POLLIN}}
		if _, err := unix.Poll(waits, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if waits[0].Revents&unix.POLLIN == 0 {
			if waits[0].Revents != 0 {
				return nil // nobody uses the filter any more
			}
			continue
		}
		if err := p.one(rights[0], folder, before); err != nil {
			return err
		}
	}
}

// one handles one report.
func (p *Platter) one(fd int, folder string, before func() error) error {
	var told notification
	if _, _, failed := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), receive, uintptr(unsafe.Pointer(&told))); failed != 0 {
		if failed == unix.EINTR || failed == unix.ENOENT { // the thread has ended meanwhile
			return nil
		}
		return failed
	}
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", told.pid, int32(told.args[0])))
	if err == nil && (path == folder || strings.HasPrefix(path, folder+"/")) {
		if err = before(); err == nil {
			err = p.Sync(path)
		}
	}
	answer := response{id: told.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	_, _, failed := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), respond, uintptr(unsafe.Pointer(&answer)))
	if failed != 0 && failed != unix.ENOENT {
		err = errors.Join(err, failed)
	}
	return err
}
