package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// errMounted says that something is mounted on a folder, so that what is seen in it does not belong to the sandbox.
var errMounted = errors.New("something is mounted there; unmount it, and it goes with the agent's next start")

// deleteTree deletes a folder with all in it. It never enters what is mounted there: a task
// may have mounted a disk, or the whole root, into its sandbox and left it.
func deleteTree(path string) error {
	parent, err := os.Open(filepath.Dir(path))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.Close()
	return deleteAt(parent, filepath.Base(path))
}

// deleteAt deletes the file or folder called name in an open folder.
func deleteAt(parent *os.File, name string) error {
	at := func(err error) error { return fmt.Errorf("%s: %w", filepath.Join(parent.Name(), name), err) }
	switch err := unix.Unlinkat(int(parent.Fd()), name, 0); err {
	case nil, unix.ENOENT:
		return nil
	case unix.EISDIR, unix.EPERM, unix.EACCES: // perhaps a folder
	case unix.EBUSY:
		return at(errMounted)
	default:
		return at(err)
	}
	folder, err := openFolder(parent, name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return at(err)
	}
	defer folder.Close()
	if err := deleteAll(folder); err != nil {
		return err
	}
	if err := unix.Unlinkat(int(parent.Fd()), name, unix.AT_REMOVEDIR); err != nil && err != unix.ENOENT {
		return at(err)
	}
	return nil
}

// deleteAll deletes what is in a folder. What can't be deleted stays, and the rest is deleted all the same.
func deleteAll(folder *os.File) error {
	const batch = 1024
	for {
		names, err := folder.Readdirnames(batch)
		if err != nil && err != io.EOF {
			return err
		}
		var kept []error
		for _, name := range names {
			if err := deleteAt(folder, name); err != nil {
				kept = append(kept, err)
			}
		}
		if len(names) < batch || len(kept) == len(names) {
			return errors.Join(kept...)
		}
		if _, err := folder.Seek(0, io.SeekStart); err != nil { // deleting moves the other names, so reading begins anew
			return err
		}
	}
}

// openFolder opens a folder in a folder, unless something is mounted there. One that its
// task has made unreadable is made readable.
func openFolder(parent *os.File, name string) (*os.File, error) {
	how := unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	descriptor, err := unix.Openat2(int(parent.Fd()), name, &how)
	if errors.Is(err, unix.EACCES) && unix.Fchmodat(int(parent.Fd()), name, 0o700, 0) == nil {
		descriptor, err = unix.Openat2(int(parent.Fd()), name, &how)
	}
	switch {
	case errors.Is(err, unix.EXDEV):
		return nil, errMounted
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EINVAL): // before Linux 5.6, or forbidden by a filter
		return openOlder(parent, name)
	case err != nil:
		return nil, err
	}
	return os.NewFile(uintptr(descriptor), filepath.Join(parent.Name(), name)), nil
}

// openOlder does what openFolder does, for kernels without openat2(2): it compares mounts.
func openOlder(parent *os.File, name string) (*os.File, error) {
	descriptor, err := unix.Openat(int(parent.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	folder := os.NewFile(uintptr(descriptor), filepath.Join(parent.Name(), name))
	ours, err := mountOf(parent)
	if err == nil {
		var its string
		if its, err = mountOf(folder); err == nil && its != ours {
			err = errMounted
		}
	}
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	return folder, nil
}

// mountOf returns the number of the mount that an open folder is on.
func mountOf(folder *os.File) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", folder.Fd()))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if number, is := strings.CutPrefix(line, "mnt_id:"); is {
			return strings.TrimSpace(number), nil
		}
	}
	return "", errors.New("the kernel does not say on which mount it is")
}
