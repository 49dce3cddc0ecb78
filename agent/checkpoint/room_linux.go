package checkpoint

import (
	"os"

	"golang.org/x/sys/unix"
)

// allocate gives a file room up to an offset without changing its size, where the file
// system can do that; otherwise errors.ErrUnsupported.
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
