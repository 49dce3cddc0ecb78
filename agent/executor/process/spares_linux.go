package process

import (
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// spareBytesMax is the longest output, in bytes, whose file is truncated and kept. To give more back to the file system
// may take long, and MoveAway waits for it.
const spareBytesMax = 1 << 20

// emptySandbox empties the sandbox called name in an open folder, if nothing in it could matter to the next task, and
// reports whether it did, and whose it is. The sandbox may hold the task's two outputs and an empty /tmp. All must belong to the
// sandbox's user, with the usual modes and no attributes, and the outputs must have no other names. No process may have
// the outputs open, neither one that the task has handed them to nor one that reads them. So these files tell the next
// task nothing of this one, and nobody can read in them what the next task writes.
func emptySandbox(parent *os.File, name string) (user int, fit bool) {
	folder, err := openFolder(parent, name)
	if err != nil {
		return 0, false
	}
	defer folder.Close()
	var own unix.Stat_t
	if unix.Fstat(int(folder.Fd()), &own) != nil || own.Mode != unix.S_IFDIR|0o700 || hasAttributes(int(folder.Fd())) {
		return 0, false
	}
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return 0, false
	}
	for _, name := range names {
		switch {
		case name == "stdout", name == "stderr":
			if !emptyOutput(folder, name, own) {
				return 0, false
			}
		case name != ".tmp" || !isEmptyTemporary(folder, name, own):
			return 0, false
		}
	}
	return int(own.Uid), true
}

// emptyOutput truncates an output, if it is a plain file of the folder's owner that no process has open. It reports
// whether the file may be kept.
func emptyOutput(folder *os.File, name string, own unix.Stat_t) bool {
	var before unix.Stat_t
	if unix.Fstatat(int(folder.Fd()), name, &before, unix.AT_SYMLINK_NOFOLLOW) != nil || before.Mode != unix.S_IFREG|0o600 {
		return false // checked before, so that no pipe or device is opened
	}
	fd, err := unix.Openat(int(folder.Fd()), name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var is unix.Stat_t
	switch {
	case unix.Fstat(fd, &is) != nil, is.Mode != unix.S_IFREG|0o600, is.Nlink != 1, is.Uid != own.Uid, is.Gid != own.Gid,
		is.Size > spareBytesMax, hasAttributes(fd):
		return false
	}
	// The kernel grants a lease of this kind only on a file that is open nowhere else. Closing the file ends it.
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		return false
	}
	return is.Size == 0 || unix.Ftruncate(fd, 0) == nil
}

// isEmptyTemporary reports whether this is the folder for /tmp of a task with namespaces, empty and with its usual
// mode.
func isEmptyTemporary(folder *os.File, name string, own unix.Stat_t) bool {
	temporary, err := openFolder(folder, name)
	if err != nil {
		return false
	}
	defer temporary.Close()
	var is unix.Stat_t
	if unix.Fstat(int(temporary.Fd()), &is) != nil || is.Mode != unix.S_IFDIR|0o1777 || is.Uid != own.Uid || hasAttributes(int(temporary.Fd())) {
		return false
	}
	names, err := temporary.Readdirnames(-1)
	return err == nil && len(names) == 0
}

// hasAttributes reports whether a file has extended attributes, such as access lists, that a user has set.
func hasAttributes(fd int) bool {
	var names [256]byte
	size, err := unix.Flistxattr(fd, names[:])
	if err != nil {
		return err != unix.ENOTSUP
	}
	return slices.ContainsFunc(strings.Split(strings.TrimSuffix(string(names[:size]), "\x00"), "\x00"), func(name string) bool {
		return name != "" && name != "security.selinux" // which the system gives every file
	})
}
