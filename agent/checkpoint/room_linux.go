package checkpoint

import (
	"os"

	"golang.org/x/sys/unix"
)

// allocate allocates a file's blocks up to an offset without changing its size. It returns errors.ErrUnsupported where
// the file system can't do that.
func allocate(file *os.File, upTo int64) error {
	for {
		err := unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, upTo)
		if err != unix.EINTR {
			return err
		}
	}
}

// exchange swaps two files in one step, where the file system can do that.
func exchange(one, other string) error {
	return unix.Renameat2(unix.AT_FDCWD, one, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE)
}
