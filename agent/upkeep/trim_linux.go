package upkeep

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// alignBytes: the size of a head that is given back is a multiple of it, because file systems give back whole blocks.
const alignBytes = 1 << 16

// trim gives the head of an output back to the disk if it holds more than is to be kept. excess is how much more it
// was.
func trim(root *os.Root, name string, keep int64) (excess int64, err error) {
	info, err := root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return 0, nil // it does not exist yet, or the task has put something else in its place
	}
	file, err := root.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return 0, nil // as above
	}
	defer file.Close()
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return 0, err
	}
	// A file with a second name may be anybody's.
	if stat.Mode&unix.S_IFMT != unix.S_IFREG || !overfull(&stat, keep) {
		return 0, nil
	}
	head := (stat.Size - keep) / alignBytes * alignBytes
	if head <= 0 {
		return 0, nil
	}
	err = unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, head)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return 0, fmt.Errorf("%s: %w", file.Name(), errors.ErrUnsupported)
	}
	return stat.Blocks*512 - keep, err
}

// isOverfull looks at an output in an open folder. It is false for anything else that the task may have put in its
// place.
func isOverfull(folder *os.File, name string, keep int64) bool {
	var stat unix.Stat_t
	if unix.Fstatat(int(folder.Fd()), name, &stat, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return false // it does not exist yet
	}
	return stat.Mode&unix.S_IFMT == unix.S_IFREG && overfull(&stat, keep)
}

// overfull says whether a file takes so much more than is to be kept that giving some back is worth the call.
func overfull(stat *unix.Stat_t, keep int64) bool {
	return stat.Nlink == 1 && stat.Size > keep && stat.Blocks*512 > keep+max(keep/4, 2*alignBytes)
}
