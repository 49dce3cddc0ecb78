package beneath

import (
	"errors"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/tenderhq/tender/agent/walls/entry"
)

// onlyFolders makes the kernel resolve a whole path in one call as walk does in steps: through real folders below, and
// through no link.
const onlyFolders = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS

// lookAt opens the place with one call. If it returns an error other than that the place does not exist, the place has
// to be walked to step by step: kernels before 5.6 do not have the call.
func (p Place) lookAt(flags uint64) (fd int, err error) {
	way, err := p.way()
	if err != nil {
		return -1, err
	}
	top, err := p.folder.handle()
	if err != nil {
		return -1, err
	}
	failed := top.Control(func(top uintptr) {
		fd, err = unix.Openat2(int(top), way, &unix.OpenHow{Flags: flags | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: onlyFolders})
	})
	return fd, errors.Join(failed, err)
}

// openAtOnce opens the place as walk does, but with three calls of the kernel for the whole way instead of five for each
// step. If it returns an error the place has to be walked to.
func (p Place) openAtOnce() (*os.Root, error) {
	fd, err := p.lookAt(unix.O_PATH)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return os.OpenRoot("/proc/self/fd/" + strconv.Itoa(fd))
}

// IsMade says whether Make would find the place as it should be, and change nothing. group is the group of the place.
func (p Place) IsMade(user entry.User, mode fs.FileMode) (group int, made bool) {
	fd, err := p.lookAt(unix.O_PATH)
	if err != nil {
		return 0, false
	}
	defer unix.Close(fd)
	var is unix.Stat_t
	if unix.Fstat(fd, &is) != nil || int(is.Uid) != user.UID {
		return 0, false
	}
	return int(is.Gid), !user.IsSelf() || is.Mode&0o777 == uint32(mode.Perm())
}

// OpenFolder opens the place itself, to read its entries.
func (p Place) OpenFolder() (*os.File, error) {
	fd, err := p.lookAt(unix.O_RDONLY)
	switch {
	case err == nil:
		return os.NewFile(uintptr(fd), p.path), nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, &fs.PathError{Op: "open", Path: p.path, Err: fs.ErrNotExist}
	}
	return p.OpenFile(".", os.O_RDONLY, 0)
}
