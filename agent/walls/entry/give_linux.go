package entry

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Give makes a folder, with all in it that was the former owner's, another user's. Links are given, not what they lead
// to; what is mounted there stays as it is; and so does a file of several names, which may be somebody's outside.
func Give(folder *os.Root, former, user User) error {
	top, err := folder.Open(".")
	if err != nil {
		return err
	}
	defer top.Close()
	return gift{former: former, user: user}.folder(top)
}

type gift struct{ former, user User }

// folder gives what is in an open folder, then the folder: while it is ours, nobody changes what is in it.
func (g gift) folder(folder *os.File) error {
	const batch = 1024
	var wrong []error
	for {
		names, err := folder.Readdirnames(batch)
		for _, name := range names {
			wrong = append(wrong, g.name(folder, name))
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(append(wrong, os.NewSyscallError("fchown", unix.Fchown(int(folder.Fd()), g.user.UID, g.user.GID)))...)
}

// name gives one thing in a folder. It is opened first: what was looked at is what is given.
func (g gift) name(folder *os.File, name string) error {
	descriptor, err := unix.Openat2(int(folder.Fd()), name, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EXDEV) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(descriptor)
	var status unix.Stat_t
	if err := unix.Fstat(descriptor, &status); err != nil {
		return &os.PathError{Op: "stat", Path: name, Err: err}
	}
	isFolder := status.Mode&unix.S_IFMT == unix.S_IFDIR
	if int(status.Uid) != g.former.UID || !isFolder && status.Nlink > 1 {
		return nil
	}
	if !isFolder {
		err := unix.Fchownat(descriptor, "", g.user.UID, g.user.GID, unix.AT_EMPTY_PATH)
		return os.NewSyscallError("fchownat", err)
	}
	inside, err := unix.Openat(descriptor, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	below := os.NewFile(uintptr(inside), name)
	defer below.Close()
	return g.folder(below)
}
