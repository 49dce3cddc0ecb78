package entry

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Give makes user the owner of a folder, and of all in it that belongs to its former owner. Of a link it gives the link
// itself, not what the link leads to. It leaves alone what is mounted in the folder, and files with several names (hard
// links), because another name may be outside of the folder.
func Give(folder *os.Root, former, user User) error {
	top, err := folder.Open(".")
	if err != nil {
		return err
	}
	defer top.Close()
	return gift{former: former, user: user}.folder(top)
}

type gift struct{ former, user User }

// folder gives away what is in an open folder, and the folder itself last: as long as the folder is the former owner's,
// the new one can't change what is in it.
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

// name gives away one file or folder in a folder. It is opened first, so that what is given is what was looked at.
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
