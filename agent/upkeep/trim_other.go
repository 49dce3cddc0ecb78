//go:build !linux

package upkeep

import (
	"errors"
	"fmt"
	"os"
)

// trim can't give the head of a file back on this system.
func trim(root *os.Root, name string, keep int64) (excess int64, err error) {
	info, err := root.Lstat(name)
	if err != nil || info.Size() <= keep {
		return 0, nil // it does not exist yet
	}
	return 0, fmt.Errorf("%s: %w", name, errors.ErrUnsupported)
}

// isOverfull leaves the check to trim.
func isOverfull(*os.File, string, int64) bool { return true }
