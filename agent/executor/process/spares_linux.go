package process

import (
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// spareBytesMax is the longest output that is cut off to keep its file: to give more back to the file system may take
// long, and who moves a folder away waits for it.
const spareBytesMax = 1 << 20

// emptySandbox empties the sandbox called name in an open folder, if nothing in it could matter to a next task, and says
// whether it did. It may hold the task's two outputs and an empty /tmp, which all belong to its user alone, have one name,
// and no mode or attribute of their own. Nobody has the outputs open: not a process that was handed them by the task, and
// not a person who reads them. So none of it tells the next task anything, nor can the next one be overheard by it.
func emptySandbox(parent *os.File, name string) bool {
	folder, err := openFolder(parent, name)
	if err != nil {
		return false
	}
	defer folder.Close()
	var own unix.Stat_t
	if unix.Fstat(int(folder.Fd()), &own) != nil || own.Mode != unix.S_IFDIR|0o700 || hasAttributes(int(folder.Fd())) {
		return false
	}
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return false
	}
	for _, name := range names {
		switch {
		case name == "stdout", name == "stderr":
			if !emptyOutput(folder, name, own) {
				return false
			}
		case name != ".tmp" || !isEmptyTemporary(folder, name, own):
			return false
		}
	}
	return true
}

// emptyOutput cuts an output off, if it is a plain file of the folder's owner that nobody else has open.
func emptyOutput(folder *os.File, name string, own unix.Stat_t) bool {
	var before unix.Stat_t
	if unix.Fstatat(int(folder.Fd()), name, &before, unix.AT_SYMLINK_NOFOLLOW) != nil || before.Mode != unix.S_IFREG|0o600 {
		return false // also so that no pipe or device is opened
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

// isEmptyTemporary says whether this is /tmp of a task in a space of its own, as it was made.
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

// hasAttributes says whether a file has extended attributes, access lists among them, that somebody has put there.
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
