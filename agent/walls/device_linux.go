package walls

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/tenderhq/tender/agent/walls/cell"
)

// deviceAt returns the device of a device file.
func deviceAt(path string) (cell.Device, error) {
	var status unix.Stat_t
	if err := unix.Stat(path, &status); err != nil {
		return cell.Device{}, fmt.Errorf("%s: %w", path, err)
	}
	kind := "c"
	switch status.Mode & unix.S_IFMT {
	case unix.S_IFCHR:
	case unix.S_IFBLK:
		kind = "b"
	default:
		return cell.Device{}, fmt.Errorf("%s is no device file", path)
	}
	return cell.Device{Path: path, Number: fmt.Sprintf("%s %d:%d", kind, unix.Major(status.Rdev), unix.Minor(status.Rdev))}, nil
}
