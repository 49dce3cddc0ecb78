package tail

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// ContentFrom returns the offset of the first byte, from offset on, that is not in a hole of the file, or the file's
// end. A file system without holes reports everything as content.
func ContentFrom(file *os.File, offset, size int64) (int64, error) {
	content, err := unix.Seek(int(file.Fd()), offset, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return max(size, offset), nil
	case errors.Is(err, unix.EINVAL):
		return offset, nil
	case err != nil:
		return 0, &os.PathError{Op: "seek", Path: file.Name(), Err: err}
	}
	return content, nil
}
