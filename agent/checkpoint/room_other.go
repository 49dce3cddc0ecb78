//go:build !linux

package checkpoint

import (
	"errors"
	"os"
)

// allocate works only on Linux; elsewhere a file beside the log keeps the room.
func allocate(*os.File, int64) error { return errors.ErrUnsupported }

func exchange(string, string) error { return errors.ErrUnsupported }
