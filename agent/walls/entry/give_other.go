//go:build !linux

package entry

import (
	"errors"
	"os"
)

// Give fails: only on Linux tasks have users of their own.
func Give(*os.Root, User, User) error {
	return errors.New("tasks have users of their own on Linux only")
}
